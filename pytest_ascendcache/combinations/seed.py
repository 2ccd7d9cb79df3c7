"""Which inputs a run generates: what ``--ascend-seed`` says, once for a process.

With 0, the default, every run tries the same operators, texts and numbers.
"""

from __future__ import annotations

_APART = 1000
_chosen = 0


def choose(seed: int) -> None:
    """Have what is generated from now on be that of another seed, a whole number from 0."""
    global _chosen
    _chosen = seed


def chosen() -> int:
    """The seed of this run."""
    return _chosen


def seeded(salt: int = 0) -> int:
    """The seed of one generator: ``salt``, below 1000, tells those of one run apart."""
    return _chosen * _APART + salt
