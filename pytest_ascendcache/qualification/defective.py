"""Starts a command of the reference toolchain with a seeded defect in it.

``python -m pytest_ascendcache.qualification.defective DEFECT PROGRAM [ARGUMENTS]``, where the
program is ``atc``, ``run``, ``faulty-atc`` (see ``reference.faulty``) or ``forkserver``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pytest_ascendcache.qualification.catalogue import Defect, load_defects
from pytest_ascendcache.reference import atc, forkserver, run
from pytest_ascendcache.reference.faulty import faulty


def programs(defect: Defect) -> dict[str, forkserver.Program]:
    """The reference's programs with a defect; its policies are made anew in every process."""

    def defective_atc(argv: Sequence[str], environ: Mapping[str, str]) -> int:
        return atc.run(argv, environ, defect.policies())

    return {
        "atc": defective_atc,
        "run": run.run,
        "faulty-atc": faulty(atc.run, defect.policies),
    }


def main() -> int:
    """Entry point."""
    name, program, *arguments = sys.argv[1:]
    changed = programs(load_defects()[name])
    if program == "forkserver":
        return forkserver.main(changed)
    return changed[program](arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
