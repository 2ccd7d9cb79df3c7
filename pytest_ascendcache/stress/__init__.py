"""Stress: ranks that get in each other's way at random, and proof that none got a wrong kernel.

A seeded schedule is carried out on a toolchain, every step goes into a history, and a checker
that sees nothing but the history says what was broken.
"""

from pytest_ascendcache.stress.campaign import Campaign, Result
from pytest_ascendcache.stress.checker import Checker, Kind, Undecided, Violation, violations
from pytest_ascendcache.stress.executor import Executor
from pytest_ascendcache.stress.ground import Ground, prepare
from pytest_ascendcache.stress.history import (
    Compile,
    Disturbance,
    Header,
    History,
    Later,
    Round,
)
from pytest_ascendcache.stress.history_file import HistoryError, HistoryWriter, read_history
from pytest_ascendcache.stress.narrative import tell
from pytest_ascendcache.stress.population import population
from pytest_ascendcache.stress.schedule import Schedule
from pytest_ascendcache.stress.shrink import Shrunk, shrink

__all__ = [
    "Campaign",
    "Checker",
    "Compile",
    "Disturbance",
    "Executor",
    "Ground",
    "Header",
    "History",
    "HistoryError",
    "HistoryWriter",
    "Kind",
    "Later",
    "Result",
    "Round",
    "Schedule",
    "Shrunk",
    "Undecided",
    "Violation",
    "population",
    "prepare",
    "read_history",
    "shrink",
    "tell",
    "violations",
]
