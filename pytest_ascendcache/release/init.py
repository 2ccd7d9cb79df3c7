"""``ascendcache-release-init``: writes a ``release.toml`` to begin with.

``ascendcache-release-init [-o FILE] [--] [ATC COMMAND LINE...]``. It fills in what the command line
says; comments explain the other keys.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE
from pytest_ascendcache.language import Language, add_language_option, translated
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.configuration import DEBUGGING
from pytest_ascendcache.release.environment import NAMES
from pytest_ascendcache.release.file import CACHE_PATH, CUSTOM_OPP, OPP, TUNE_BANK
from pytest_ascendcache.release.job import job_problems, read_job
from pytest_ascendcache.release.values import value_faults
from pytest_ascendcache.words import count, pytest_command

_RECORDED = (CACHE_PATH, ENV_SIZE, ENV_RATIO, OPP, CUSTOM_OPP, TUNE_BANK, *DEBUGGING)
"""Variables that a compile depends on; the file records those that are set."""

_TEMPLATE = """\
# A model's release. It is judged by:
#   pytest --ascend-release={file}
# Relative paths, also in the command line, count from the directory of this file.

name = {name}

# The compiler: atc, which set_env.sh puts on PATH, or the path of one. Without a toolchain, here or
# as --ascend-toolchain, every rule that compiles stays undecided.
{toolchain}

# How the model is converted: the whole atc command line, or a table [options] without dashes.
{atc}

# The chip, if the command line has no --soc_version.
{soc}

# Operators to compile one by one, besides the model that the command converts: a file or a list of
# files in ATC's single-operator JSON. Without a model and operators, every rule that compiles stays
# undecided.
{operators}

# Sample inputs of the model: an .npz file with an array for each input. Without one, inputs are
# generated for its shapes. Outputs may be off from a float32 run by this share of the largest one.
# inputs = "samples.npz"
# tolerance = 0.05

# The precision file kept with the model, if it is not the one that --op_precision_mode names.
# precision_file = "model.ini"

# Caches that are released with the model or used by it: a directory of --op_compiler_cache_dir, or
# MindSpore's directory of rank_0, rank_1, ... They are audited and never changed.
{caches}

# The number of cards it runs on.
cards = 1

# The golden kernel manifest; --ascend-manifest-update writes it once the kernels are approved.
{manifest}

# The tuning knowledge base, if it is not the one that --op_bank_path or TUNE_BANK_PATH names.
# knowledge_base = "bank"

# Variables the model is converted with; those of the shell are ignored.
[environment]
{environment}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns exit status 0, or 2 if nothing was written."""
    parser = argparse.ArgumentParser(
        prog="ascendcache-release-init",
        description="Writes a release file for pytest --ascend-release, with comments.",
        allow_abbrev=False,
    )
    parser.add_argument("-o", default="release.toml", metavar="FILE", help="default: release.toml")
    parser.add_argument(
        "--job",
        metavar="SCRIPT",
        type=Path,
        help="look through the settings of the script that launches a training job; write nothing",
    )
    add_language_option(parser)
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="ATC COMMAND LINE",
        help="the command that converts the model, e.g. -- atc --model=bert.onnx ...",
    )
    options = parser.parse_args(argv)
    language = options.language
    if options.job is not None:
        return _look_at_job(options.job, language)
    file, words = options.o, options.command
    if words[:1] == ["--"]:
        del words[0]
    try:
        if len(words) == 1 and any(each.isspace() for each in words[0]):
            words = shlex.split(words[0])
        toolchain = found_toolchain(words, os.environ)
        _write(Path(file), template(file, words, os.environ, toolchain))
    except ValueError as error:  # CommandError, and the shell's quoting
        for line in str(error).splitlines():
            print(f"ascendcache-release-init: {translated(line, language)}", file=sys.stderr)
        return 2
    judging = [*pytest_command(), f"--ascend-release={file}"]
    written = f"{file} is written. Look through it, then judge the release:"
    print(translated(written, language))
    if toolchain:
        print(f"  {shlex.join(judging)}")
    else:
        print(f"  {shlex.join([*judging, '--ascend-toolchain=atc'])}")
        nothing = (
            "No atc was found, so the file names no toolchain. Without Ascend software the "
            "embedded reference shows how the gate works, and says nothing about CANN:"
        )
        print(translated(nothing, language))
        print(f"  {shlex.join([*judging, '--ascend-toolchain=reference'])}")
    return 0


def _look_at_job(path: Path, language: Language) -> int:
    """Print what is wrong with a job's settings; returns 1 if anything is, 2 without a script."""
    try:
        job = read_job(path)
    except OSError as error:
        what = f"ascendcache-release-init: --job={path} cannot be read ({error.strerror})."
        print(translated(what, language), file=sys.stderr)
        return 2
    if not (job.settings or job.processes or job.unfollowed):
        what = (
            f"ascendcache-release-init: --job={path} sets nothing and starts nothing that is known."
        )
        print(translated(what, language), file=sys.stderr)
        return 2
    problems = job_problems(job)
    for line, why in sorted(job.unfollowed.items()):
        print(f"{path}:{line}: {translated(f'not decided: {why}', language)}")
    for line, problem in problems:
        print(f"{path}:{line}: {translated(problem.found, language)}")
        print(translated(f"  expected: {problem.wanted}", language))
    for line, setting in job.unknown:
        unknown = f"{setting} is not judged: only a run would tell its value"
        print(f"{path}:{line}: {translated(unknown, language)}")
    for line, script in job.sourced.items():
        unread = f"{script} is not read: what it sets is not known"
        print(f"{path}:{line}: {translated(unread, language)}")
    settings = count(len(job.settings), "setting")
    is_judged = bool(problems or job.unfollowed or {*NAMES} & {*job.settings})
    found = count(len(problems), "fault") if is_judged else "nothing of it is judged"
    print(translated(f"{settings} for {job.number}: {found}", language))
    return int(bool(problems or job.unfollowed or not is_judged))


def found_toolchain(words: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the atc to judge: the program of the command line if that is a path or the reference's
    command, or ``atc`` on PATH, or that of the toolkit that the environment names, or nothing."""
    program = next((each for each in words if not atc.ASSIGNMENT.match(each)), "")
    if program == "ascendcache-atc":
        return "reference"
    if os.sep in program and not program.startswith("-") and shutil.which(program):
        return program
    if shutil.which("atc", path=variables.get("PATH")):
        return "atc"
    homes = (variables.get(name, "") for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"))
    places = (str(Path(home) / "bin/atc") for home in homes if home)
    return next((each for each in places if shutil.which(each)), "")


def template(
    file: str, words: Sequence[str], variables: Mapping[str, str], toolchain: str = ""
) -> str:
    """Return the text of a release file, filled from a command line and the environment. Raises
    ``CommandError`` if the command line cannot be read, or atc does not have one of its options."""
    remedy = "write its value, or export it before this command"
    command = atc.parse_command(words, variables, remedy)
    options = command.options
    if faults := [*atc.name_faults(options), *value_faults(options)]:
        raise atc.CommandError("\n".join(faults))
    operators = options.get(atc.SINGLE_OP, "")
    stem = Path(options.get(atc.MODEL, "")).stem or Path(operators).stem
    cache = options.get(atc.CACHE_DIR, "")
    needs_soc = bool(words) and atc.SOC not in options
    recorded = {key: variables[key] for key in _RECORDED if variables.get(key)}
    environment = {**recorded, **command.environment}
    return _TEMPLATE.format(
        file=file,
        name=_text(stem or Path.cwd().name or "model"),
        toolchain=_line(bool(toolchain), f"toolchain = {_text(toolchain or 'atc')}"),
        atc=_command(words) if words else '# atc = "atc --model=model.onnx --framework=5 ..."',
        soc=_line(needs_soc, 'soc = "Ascend910B1"'),
        operators=_line(bool(operators), f"operators = {_text(operators or 'operators.json')}"),
        caches=_line(Path(cache).is_dir() and bool(cache), f"caches = [{_text(cache or 'cache')}]"),
        manifest=_line(bool(operators), 'manifest = "kernels.json"'),
        environment="\n".join(f"{key} = {_text(value)}" for key, value in environment.items())
        or f'# {ENV_SIZE} = "500"',
    )


def _line(is_known: bool, text: str) -> str:
    """Return a line, as a comment unless its value is known."""
    return text if is_known else f"# {text}"


def _text(value: str) -> str:
    """Quote a TOML string. JSON's strings are TOML's except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _command(words: Sequence[str]) -> str:
    """Return the key ``atc`` with the command line, one option per line."""
    lines: list[str] = []
    for word in words:
        quoted = shlex.quote(word)
        if lines and not word.startswith("-"):
            lines[-1] += f" {quoted}"
        else:
            lines.append(quoted)
    text = " \\\n  ".join(lines)
    if "'''" in text or any(not each.isprintable() for word in words for each in word):
        return f"atc = {_text(shlex.join(words))}"
    return f"atc = '''\n{text}\n'''"


def _write(path: Path, text: str) -> None:
    """Write a new file. Raises ``ValueError``, which says in one sentence why it is not written."""
    if path.name != str(path):
        raise ValueError(
            f"-o {path} is not in this directory; a release file belongs where atc is started, "
            "because relative paths count from it."
        )
    try:
        content = text.encode()
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise ValueError(
            f"{path} exists and is left as it is; give another name with -o."
        ) from None
    except UnicodeEncodeError:
        raise ValueError("the command line is not UTF-8; write its names in UTF-8.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}).") from None


if __name__ == "__main__":
    sys.exit(main())
