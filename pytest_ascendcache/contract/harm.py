"""Harm: what a broken promise does to the users of the cache.

A rule's level is how binding the promise is; harm is what was observed when it was broken. The
first five kinds of harm fail a run whatever the level of the rule.
"""

from __future__ import annotations

from enum import Enum


class Harm(str, Enum):
    """Kinds of harm, the worst first. Reports are sorted by harm."""

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
        """Whether this harm fails the run at any level."""
        return self.rank < 5

    @property
    def rank(self) -> int:
        """The position in the order of severity, 0 for the worst."""
        return list(Harm).index(self)
