"""The seed of everything a run generates, set once per process from ``--ascend-seed``."""

from __future__ import annotations

_APART = 1000
_chosen = 0


def choose(seed: int) -> None:
    """Set the seed of this run, an integer of 0 or more."""
    global _chosen
    _chosen = seed


def chosen() -> int:
    return _chosen


def seeded(salt: int = 0) -> int:
    """The seed of one generator; ``salt``, below 1000, distinguishes the generators of a run."""
    return _chosen * _APART + salt
