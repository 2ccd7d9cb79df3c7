"""The smallest set of changes that turns misses into hits, found in few runs.

The changes are divided in halves: each cause among n changes takes about log2(n) + 2 tries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import TypeVar

Changed = TypeVar("Changed")


def smallest(
    changes: Sequence[Changed], reaches: Callable[[Sequence[Changed]], bool]
) -> list[Changed]:
    """The changes that are needed, in their order, where ``reaches`` tells of some of them whether
    they are enough. All of them together are.

    A shortest beginning of the changes that is enough ends with a needed one; it is put aside, and
    the rest is searched for those needed beside it.
    """
    needed: list[Changed] = []
    rest = list(changes)
    while rest and not reaches(needed):
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            if reaches([*rest[:middle], *needed]):
                high = middle
            else:
                low = middle
        needed.insert(0, rest[high - 1])
        rest = rest[: high - 1]
    return needed


def bound(changes: int, causes: int) -> int:
    """The most runs that ``causes`` causes among so many changes take."""
    return causes * (2 * ceil(log2(max(changes, 2))) + 6)
