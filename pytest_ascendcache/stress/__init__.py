"""Stress: many ranks at random in shared caches, and a check that no rank gets a wrong kernel.

A seeded schedule runs on a toolchain, a history records every step, and a checker that reads
nothing but the history reports broken promises.
"""

from pytest_ascendcache.stress.campaign import Campaign
from pytest_ascendcache.stress.checker import Kind, Undecided, Violation, violations
from pytest_ascendcache.stress.executor import Executor
from pytest_ascendcache.stress.ground import prepare
from pytest_ascendcache.stress.history import (
    Compile,
    Disturbance,
    Header,
    LaterCompiles,
    Round,
    StressHistory,
)
from pytest_ascendcache.stress.history_file import HistoryError, HistoryWriter, read_history
from pytest_ascendcache.stress.narrative import tell
from pytest_ascendcache.stress.schedule import Schedule, population
from pytest_ascendcache.stress.shrink import shrink

__all__ = [
    "Campaign",
    "Compile",
    "Disturbance",
    "Executor",
    "Header",
    "HistoryError",
    "HistoryWriter",
    "Kind",
    "LaterCompiles",
    "Round",
    "Schedule",
    "StressHistory",
    "Undecided",
    "Violation",
    "population",
    "prepare",
    "read_history",
    "shrink",
    "tell",
    "violations",
]
