"""The command line of ``op_compiler``. Source: facts ``static-kernel`` sections 2.3 and 2.4."""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.reference.static_kernel.archive import PackageError, checked_name
from pytest_ascendcache.reference.static_kernel.soc import full_name, soc_names

USAGE = """\
usage: ascendcache-op-compiler -p DIR -v SOC [-o OUTPUT] [-j JOBS] [-l LEVEL]

Compiles a static kernel for every operator-information file below DIR and packs them into one
self-installing package, static_kernel_<time>_<process>.run.

  -p, --op_params_dir DIR    operator information: *.json, also in directories below
  -v, --soc_version SOC      chip to compile for, in any case, e.g. Ascend910B1
  -o, --output OUTPUT        directory for the package, or the name of one that does not exist
                             yet (default: the working directory)
  -j, --job N                processes that compile (default: 16)
  -l, --log LEVEL            debug, info, warning, error (default) or null
  -m, --compile_mode opc     the one mode there is
  -f true|false              accepted; means nothing here
      --enable_super_kernel  accepted; kernels are not fused here
      --super_kernel_options OPTIONS
                             accepted; means nothing here
      --keep-going           pack what can be compiled, and say what is left out
      --count                only count the files -p would compile
  -h, --help                 show this text

Environment: ASCEND_CUSTOM_OPP_PATH, TUNE_BANK_PATH. The exit status is 0 if and only if there is
a package with a kernel for every operator, and 3 for a package without those that are named.
"""

LOG_LEVELS = ("null", "debug", "info", "warning", "error")
DEFAULT_JOBS = 16
_SHORT = "hl:p:o:v:m:j:k:t:d:f:"
_LONG = {
    "help": "-h",
    "log=": "-l",
    "op_params_dir=": "-p",
    "output=": "-o",
    "soc_version=": "-v",
    "compile_mode=": "-m",
    "job=": "-j",
    "kernel_name=": "-k",
    "op_type=": "-t",
    "op_debug_config=": "-d",
    "count": "--count",
    "keep-going": "--keep-going",
    "enable_super_kernel": "--enable_super_kernel",
    "super_kernel_options=": "--super_kernel_options",
}


class OpCompilerError(Exception):
    """The command cannot be carried out. The text names the wrong value and the remedy."""


@dataclass(frozen=True)
class OpCompilerOptions:
    """The options of one command line.

    ``package`` is empty if the command chooses the name; ``keep_going`` leaves out operators that
    cannot be compiled.
    """

    params: Path
    count: bool = False
    soc: str = ""
    directory: Path = Path()
    package: str = ""
    jobs: int = DEFAULT_JOBS
    log: str = "error"
    keep_going: bool = False


_NOT_HERE = {
    "-k": "asks for a debug kernel",
    "-t": "asks for an operator type's debug kernels",
    "-d": "asks for debug kernels",
}


def parse(argv: Sequence[str]) -> OpCompilerOptions | None:
    """Parse a command line. Returns ``None`` if it requests help.

    Raises ``OpCompilerError`` for the first mistake.
    """
    values = _by_short_name(argv)
    if "-h" in values:
        return None
    for option, purpose in _NOT_HERE.items():
        if option in values:
            raise OpCompilerError(
                f"Option {option} [{values[option]}] {purpose}, which is not offered here; "
                "compile operator information with -p."
            )
    params = _params(values)
    if "--count" in values:
        return OpCompilerOptions(params, count=True)
    soc = _soc(values)
    _one_of("-m", values.get("-m", ""), ("", "opc"))
    _one_of("-f", values.get("-f", "true"), ("true", "false"))
    directory, package = _output(values)
    return OpCompilerOptions(
        params=params,
        soc=soc,
        directory=directory,
        package=package,
        jobs=_jobs(values),
        log=_one_of("-l", values.get("-l", "error").lower(), LOG_LEVELS),
        keep_going="--keep-going" in values,
    )


def _by_short_name(argv: Sequence[str]) -> dict[str, str]:
    """The options and their values by short name."""
    if not argv:
        raise OpCompilerError("There are no options; give -p and -v, or -h for help.")
    try:
        pairs, rest = getopt.getopt(list(argv), _SHORT, list(_LONG))
    except getopt.GetoptError as error:
        raise OpCompilerError(f"{error.msg[0].upper()}{error.msg[1:]}; see -h.") from None
    if rest:
        raise OpCompilerError(f"Argument [{rest[0]}] belongs to no option; see -h.")
    names = {f"--{name.rstrip('=')}": short for name, short in _LONG.items()}
    return {names.get(option, option): value for option, value in pairs}


def _params(values: Mapping[str, str]) -> Path:
    """``-p``: a directory, which may be empty."""
    value = values.get("-p", "")
    if not value:
        raise OpCompilerError("Option -p is missing; name a directory with operator information.")
    if not Path(value).is_dir():
        raise OpCompilerError(f"Option -p [{value}] is not a directory; name one.")
    return Path(value)


def _soc(values: Mapping[str, str]) -> str:
    """``-v``, in CANN's spelling."""
    if not values.get("-v"):
        raise OpCompilerError("Option -v is missing; name a chip such as Ascend910B1.")
    name = full_name(values["-v"])
    if name is None:
        raise OpCompilerError(
            f"Option -v [{values['-v']}] is not a known chip; write one of "
            f"{', '.join(soc_names())}."
        )
    return name


def _output(values: Mapping[str, str]) -> tuple[Path, str]:
    """``-o``: the directory and the name of the package; the name is empty if not set.

    A value that ends with a slash or exists is a directory; any other names the package.
    """
    value = values.get("-o", ".")
    path = Path(value)
    directory, package = path, ""
    if not value:
        raise OpCompilerError("Option -o is empty; name a directory or a package.")
    if not value.endswith("/") and not path.is_dir():
        directory, package = path.parent, path.name.removesuffix(".run")
        try:
            checked_name(package)
        except PackageError as error:
            raise OpCompilerError(f"Option -o [{value}]: {error}.") from None
        if path.exists() or path.with_name(f"{package}.run").exists():
            raise OpCompilerError(f"Option -o [{value}] exists already; name another package.")
    if not directory.is_dir():
        raise OpCompilerError(
            f"Option -o [{value}]: there is no directory [{directory}]; create it first."
        )
    return directory, package


def _jobs(values: Mapping[str, str]) -> int:
    """``-j``; values below 1 mean 1, as in CANN."""
    value = values.get("-j", str(DEFAULT_JOBS))
    try:
        return max(1, int(value))
    except ValueError:
        raise OpCompilerError(f"Option -j [{value}] is not a number; write one from 1.") from None


def _one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """Check an option that accepts only some values. Returns the value."""
    if value not in allowed:
        names = ", ".join(each or "''" for each in allowed)
        raise OpCompilerError(f"Option {option} [{value}] is not known; write one of {names}.")
    return value
