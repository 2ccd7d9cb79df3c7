"""How we know that the suite can fail: seeded defects of the reference toolchain.

A defect overrides one method of the reference's policies, or a few, and breaks a rule by it. The
suite must notice each of them, by the rule the defect says it breaks. A profile is a bundle of
defects that behaves as a vendor's toolchain does. None is ever on by default.
"""

from __future__ import annotations


def defect_names() -> list[str]:
    """Every seeded defect, in the order of the rules they break."""
    from pytest_ascendcache.qualification.loading import load_defects

    return list(load_defects())


def profile_names() -> list[str]:
    """Every profile."""
    from pytest_ascendcache.qualification.loading import load_profiles

    return list(load_profiles())


def is_mutant(name: str) -> bool:
    """Whether this is a generated mutant of the reference."""
    from pytest_ascendcache.qualification.mutants import PREFIX, all_mutants

    return name.startswith(PREFIX) and name in all_mutants()
