"""Starts a command of the reference toolchain with a seeded defect, or a profile, in it.

``python -m pytest_ascendcache.qualification.defective NAME PROGRAM [ARGUMENTS]``, where the
program is ``atc``, ``run`` or ``forkserver``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pytest_ascendcache.qualification.catalogue import (
    Defect,
    Profile,
    load_defects,
    load_profiles,
)
from pytest_ascendcache.reference import atc, forkserver, run


def programs(defect: Defect | Profile) -> dict[str, forkserver.Program]:
    """The reference's programs with a defect; its policies are made anew in every process."""

    def defective_atc(argv: Sequence[str], environ: Mapping[str, str]) -> int:
        return atc.run(argv, environ, defect.policies())

    return {"atc": defective_atc, "run": run.run}


def main() -> int:
    """Entry point."""
    name, program, *arguments = sys.argv[1:]
    changed = programs(load_defects().get(name) or load_profiles()[name])
    if program == "forkserver":
        return forkserver.main(changed)
    return changed[program](arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
