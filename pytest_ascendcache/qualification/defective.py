"""Starts a command of the reference toolchain with a seeded defect, or a profile, in it.

``python -m pytest_ascendcache.qualification.defective NAME PROGRAM [ARGUMENTS]``, where the
program is ``atc``, ``run``, ``train``, ``faulty-atc`` or ``faulty-train`` (see
``reference.faulty``), or ``forkserver``.
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
from pytest_ascendcache.reference import atc, forkserver, run, train
from pytest_ascendcache.reference.faulty import faulty

ANY = "any"
"""Stands for every defect and profile; its fork server tells programs by ``name/program``."""


def programs(defect: Defect | Profile) -> dict[str, forkserver.Program]:
    """The reference's programs with a defect; its policies are made anew in every process."""

    def defective_atc(argv: Sequence[str], environ: Mapping[str, str]) -> int:
        return atc.run(argv, environ, defect.policies())

    def defective_train(argv: Sequence[str], environ: Mapping[str, str]) -> int:
        return train.run(argv, environ, defect.policies())

    return {
        "atc": defective_atc,
        "run": run.run,
        "train": defective_train,
        "faulty-atc": faulty(atc.run, defect.policies),
        "faulty-train": faulty(train.run, defect.policies),
    }


def _programs_of_all(every: Mapping[str, Defect | Profile]) -> dict[str, forkserver.Program]:
    """The programs of every defect, as ``defect/program``."""
    return {
        f"{name}/{program}": run
        for name, each in every.items()
        for program, run in programs(each).items()
    }


def main() -> int:
    """Entry point."""
    name, program, *arguments = sys.argv[1:]
    every: dict[str, Defect | Profile] = {**load_defects(), **load_profiles()}
    changed = _programs_of_all(every) if name == ANY else programs(every[name])
    if program == "forkserver":
        return forkserver.main(changed)
    return changed[program](arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
