"""SoC names of static kernels: ``--soc_version``, and the short name of the kernels' directory.

Source: facts ``static-kernel`` section 2.4.
"""

from __future__ import annotations

import re

_FAMILIES = (
    (r"Ascend910B\d.*", "ascend910b"),
    (r"Ascend910_93\d\d", "ascend910_93"),
    (r"Ascend910.*", "ascend910"),
    (r"Ascend310B\d", "ascend310b"),
    (r"Ascend310P\d", "ascend310p"),
)


def soc_names() -> tuple[str, ...]:
    """All SoCs with kernels, in CANN's spelling."""
    # Importing this loads every operator's definition, which an installer does not need.
    from pytest_ascendcache.reference.kernels.objects import SOCS

    return tuple(SOCS)


def full_name(name: str) -> str | None:
    """The SoC's name in CANN's spelling, or ``None`` if it is unknown. The case does not matter."""
    return {each.lower(): each for each in soc_names()}.get(name.lower())


def short_name(name: str) -> str:
    """The name of the directory of a SoC's kernels and index."""
    for pattern, family in _FAMILIES:
        if re.fullmatch(pattern, name):
            return family
    return name.lower()
