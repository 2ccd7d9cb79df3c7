"""Makes the libraries that MindSpore's wheel wants from CANN, out of the wheel's undefined names.

``native/runtime.cc`` has bodies for the names that a run of a network calls. Every other name gets
a function that returns 0, or data: the libraries are loaded with all names bound.

Source: facts ``mindspore-ascend`` section G.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_ascendcache.processes.launch import ToolchainError

NATIVE = Path(__file__).with_name("native")
LIBRARY = "libascendcache_cann.so"
"""The library with all names. Those that the wheel asks for are empty and need this one."""

_ELF = b"\x7fELF"
_TOOLS = {"g++": "g++", "readelf": "binutils", "nm": "binutils", "c++filt": "binutils"}
_ARGUMENTS_AS_STRUCTURE = (1, 8)
"""The first release whose ``rtKernelLaunchWithFlag`` takes its arguments in a structure."""


def missing_tool() -> str:
    """What has to be installed before stand-ins can be made, in one sentence; empty if nothing."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH; apt-get install {package} brings it"
    return ""


def build(wheel: Path, release: str, python_library: Path, target: Path) -> None:
    """Build the stand-ins for an unpacked wheel into ``target``. Raises ``ToolchainError``."""
    libraries = [path for path in sorted(wheel.rglob("*.so*")) if _is_elf(path)]
    if not libraries:
        raise ToolchainError(f"{wheel} holds no library; unpack a wheel of mindspore-ascend there")
    target.mkdir(parents=True, exist_ok=True)
    first, _, rest = release.partition(".")
    structure = (int(first), int(rest.partition(".")[0])) >= _ARGUMENTS_AS_STRUCTURE
    runtime = target / "runtime.o"
    flags = ["-O1", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-DARGS_INFO={int(structure)}"]
    _run(["g++", *flags, "-c", "-o", str(runtime), str(NATIVE / "runtime.cc")])
    ours = _defined(["nm", "--defined-only", str(runtime)])
    names = sorted(_wanted(libraries, python_library) - ours)
    source = target / "names.cc"
    source.write_text(_source(names), encoding="utf-8")
    linked = [
        "-shared",
        "-o",
        str(target / LIBRARY),
        str(source),
        str(runtime),
        "-ldl",
        "-lpthread",
    ]
    _run(["g++", *flags, *linked])
    for name in _absent(libraries):
        _run(
            [
                "g++",
                "-shared",
                "-nostdlib",
                "-o",
                str(target / name),
                f"-Wl,-soname,{name}",
                "-Wl,--no-as-needed",
                str(target / LIBRARY),
            ]
        )


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _run(command: Sequence[str], text: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "").strip().splitlines()[:1]
        raise ToolchainError(f"{command[0]} fails: {' '.join(reason)}") from None
    except OSError as error:
        raise ToolchainError(f"{command[0]} cannot be started: {error.strerror}") from None
    return done.stdout


def _absent(libraries: Iterable[Path]) -> set[str]:
    """Names of libraries that are needed and neither in the wheel nor on this machine."""
    needed: set[str] = set()
    for each in libraries:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*?)\]", _run(["readelf", "-dW", str(each)])))
    present = {path.name for path in libraries}
    system = set(re.findall(r"^\t(\S+) ", _run(["/sbin/ldconfig", "-p"]), re.MULTILINE))
    return {name for name in needed - present - system if not name.startswith("libpython")}


def _wanted(libraries: Sequence[Path], python_library: Path) -> set[str]:
    """Names that the wheel uses and that neither it, Python nor the system defines."""
    undefined: set[str] = set()
    defined: set[str] = set()
    for each in libraries:
        for line in _run(["nm", "-D", str(each)]).splitlines():
            *_, kind, name = line.split()
            name = name.partition("@")[0]
            if kind == "U":
                undefined.add(name)
            elif kind not in "wv" and not (each.name == "libakg.so" and name.startswith("rt")):
                defined.add(name)
    for library in (*_system_libraries(), python_library):
        defined |= _defined(["nm", "-D", "--defined-only", str(library)])
    return undefined - defined


def _system_libraries() -> list[str]:
    """The paths of the libraries that come with a compiler."""
    wanted = (
        "libc.so.6",
        "libm.so.6",
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libpthread.so.0",
        "libdl.so.2",
        "librt.so.1",
        "libgomp.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    )
    known = re.findall(r"^\t(\S+) .*=> (\S+)$", _run(["/sbin/ldconfig", "-p"]), re.MULTILINE)
    paths = dict(reversed(known))  # the first of several is the one that is loaded
    return [paths[each] for each in wanted if each in paths]


def _defined(command: Sequence[str]) -> set[str]:
    return {line.split()[-1].partition("@")[0] for line in _run(command).splitlines()}


def _source(names: Sequence[str]) -> str:
    """Definitions of names: tables of types and classes' constants are data, others functions."""
    lines = ['extern "C" {', "static char nothing[512];"]
    shown = _run(["c++filt"], "\n".join(names)).splitlines()
    for number, (name, readable) in enumerate(zip(names, shown, strict=True)):
        place = f'__asm__("{name}")'
        if name.startswith("_ZT"):
            lines.append(f"extern char n{number}[512] {place}; char n{number}[512];")
        elif name.startswith("_Z") and "(" not in readable:
            # A constant string of the old ABI: a pointer behind its length, capacity and count.
            lines.append(f"extern void *n{number} {place}; void *n{number} = nothing + 24;")
        else:
            lines.append(f"long n{number}() {place}; long n{number}() {{ return 0; }}")
    return "\n".join([*lines, "}", ""])
