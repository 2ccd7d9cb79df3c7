"""What a broken promise does to the people who rely on the cache.

A level says how binding a promise is; harm says what was seen to happen when it was broken. The
first five kinds fail a run whatever the level of the rule.
"""

from __future__ import annotations

from enum import Enum


class Harm(str, Enum):
    """Kinds of harm, the worst first; reports are ordered by them."""

    WRONG_RESULT = "wrong-result"
    OUTSIDE_TOUCHED = "outside-touched"
    UNUSABLE = "unusable"
    HANG = "hang"
    CRASH = "crash"
    LOST_WORK = "lost-work"
    MISPLACED = "misplaced"
    MISLEADING = "misleading"

    @property
    def fails(self) -> bool:
        """Whether it fails the run at any level."""
        return self.rank < 5

    @property
    def rank(self) -> int:
        """Its place in the order, 0 for the worst."""
        return list(Harm).index(self)
