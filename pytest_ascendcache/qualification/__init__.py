"""Shows that the suite can fail: seeded defects of the reference toolchain.

A defect overrides one or a few methods of the reference's policies and thereby breaks a rule. The
suite must notice it by that rule. A profile is a bundle of defects that behaves like a vendor's
toolchain. No defect and no profile is on by default.
"""

from __future__ import annotations


def defect_names() -> list[str]:
    """The names of all seeded defects."""
    from pytest_ascendcache.qualification.loading import load_companies, load_defects

    return [*{**load_defects(), **load_companies()}]


def profile_names() -> list[str]:
    """The names of all profiles."""
    from pytest_ascendcache.qualification.loading import load_profiles

    return list(load_profiles())


def is_mutant(name: str) -> bool:
    """Whether a generated mutant of the reference has this name."""
    from pytest_ascendcache.qualification.mutants import PREFIX, all_mutants

    return name.startswith(PREFIX) and name in all_mutants()
