"""Names of chips, and which of them are one chip's."""

from __future__ import annotations

import re

CHIP = re.compile(r"ascend\d\w*", re.IGNORECASE)
QUOTED_CHIP = re.compile(rb'"(ascend\d\w*)"', re.IGNORECASE)
"""A chip that metadata names, whatever the field is called."""

_VARIANTS = {"ascend310": "", "ascend910": "(?:[ab]|pro[ab]|premiuma)?"}
"""What may follow a name that others begin with: Ascend310P and Ascend910B1 are other chips."""


def chip_of(path: str) -> str:
    """Return the chip that the last of a path's names is; empty if none is a chip."""
    return next((each for each in reversed(path.split("/")) if CHIP.fullmatch(each)), "")


def is_same_chip(one: str, other: str) -> bool:
    """Return whether one of two names is the other's, with or without a variant."""
    short, long = sorted((one.lower(), other.lower()), key=len)
    variants = _VARIANTS.get(short, ".*")
    return long.startswith(short) and re.fullmatch(variants, long[len(short) :]) is not None
