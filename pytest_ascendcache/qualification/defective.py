"""Starts a program of the reference toolchain with a seeded defect or a profile.

``python -m pytest_ascendcache.qualification.defective NAME PROGRAM [ARGUMENTS]``. The program is
``run``, ``forkserver``, or one of ``reference.faulty``, also with its faults as ``faulty-atc`` and
so on. NAME may also be that of a generated mutant.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.loading import everything, flawed
from pytest_ascendcache.reference import forkserver
from pytest_ascendcache.reference.faulty import PROGRAMS, PolicyProgram, Program
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel import op_compiler, resident

THIS = __spec__.name
"""The module's name; ``__name__`` is ``__main__`` when the module is run."""
MISWRITTEN = "the defect does not do what it says, it fails in its own code"
"""What a run prints if a defect's own code fails, since that would otherwise count as noticed."""
_SOFTWARE_ERROR = 70
_DEFECTS = Path(__file__).parent / "defects"
ANY = "any"
"""Stands for every defect and profile; its fork server knows programs as ``name/program``."""


def programs(defect: Defect) -> dict[str, Program]:
    """The reference's programs with a defect."""
    starting = {**PROGRAMS, "op-compiler": _installed_by(defect)}
    watched = {name: _watched(program) for name, program in starting.items()}
    return forkserver.programs(defect.policies, watched)


def _watched(program: PolicyProgram) -> PolicyProgram:
    """A program that tells of failures in a defect's own code."""

    def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies) -> int:
        try:
            return program(argv, environ, policies)
        except (NameError, AttributeError, TypeError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            if not Path(where.filename).is_relative_to(_DEFECTS):
                raise
            traceback.print_exc()
            print(f"[ERROR] {MISWRITTEN}", file=sys.stderr)
            return _SOFTWARE_ERROR

    return run


def installer_words(name: str) -> tuple[str, ...]:
    """The command that starts the installer with a defect."""
    return (sys.executable, "-m", THIS, name, "installer")


def _installed_by(defect: Defect) -> PolicyProgram:
    """An op_compiler whose packages start an installer with the same defect."""
    words = installer_words(defect.name)
    return lambda argv, environ, policies: op_compiler.run(argv, environ, policies, words)


def _program_named(name: str) -> Program:
    """A program of any defect, by ``defect/program``. Made on demand: all of them take 7 MB, and
    every fork copies the page tables."""
    defect, _, program = name.partition("/")
    return programs(everything()[defect])[program]


def _installer_named(name: str) -> resident.Installer:
    """The installer with a defect, made when it starts."""
    return lambda argv, environ: programs(everything()[name])["installer"](argv, environ)


def main() -> int:
    """Entry point."""
    name, program, *arguments = sys.argv[1:]
    loaded = everything() if name == ANY else {name: flawed(name)}
    named = _program_named if name == ANY else programs(loaded[name]).__getitem__
    if program == "forkserver":
        resident.LOADED.update((installer_words(each), _installer_named(each)) for each in loaded)
        return forkserver.main(named)
    return named(program)(arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
