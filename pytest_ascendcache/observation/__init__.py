"""Deciding from outside what a compile delivered and what became of the cache.

A request goes to the toolchain; canaries and two snapshots say what happened. This room knows
toolchains and directories; it does not judge.
"""

from pytest_ascendcache.observation.cache import CacheUnderTest, Shared
from pytest_ascendcache.observation.control import positive_control
from pytest_ascendcache.observation.evidence import (
    Accuracy,
    Evidence,
    NotDecidable,
    PositiveControl,
    Step,
)
from pytest_ascendcache.observation.interruption import Interruption, spread
from pytest_ascendcache.observation.run import Run

__all__ = [
    "Accuracy",
    "CacheUnderTest",
    "Evidence",
    "Interruption",
    "NotDecidable",
    "PositiveControl",
    "Run",
    "Shared",
    "Step",
    "positive_control",
    "spread",
]
