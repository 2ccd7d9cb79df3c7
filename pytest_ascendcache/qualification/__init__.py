"""How we know that the suite can fail: seeded defects of the reference toolchain.

A defect is a subclass of one of the reference's policies that breaks one rule. The suite must
notice each of them, by the rule the defect says it breaks. None is ever on by default.
"""

from __future__ import annotations


def defect_names() -> list[str]:
    """Every seeded defect, in the order of the rules they break."""
    from pytest_ascendcache.qualification.catalogue import load_defects

    return list(load_defects())
