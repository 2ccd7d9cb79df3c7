"""Stress: many ranks at random in shared caches, and a check that no rank gets a wrong kernel.

A seeded schedule runs on a toolchain, a history records every step, and a checker that reads
nothing but the history reports broken promises.
"""

from pytest_ascendcache.stress.campaign import Campaign
from pytest_ascendcache.stress.checker import Kind, Undecided
from pytest_ascendcache.stress.history_file import HistoryError, read_history
from pytest_ascendcache.stress.schedule import population

__all__ = ["Campaign", "HistoryError", "Kind", "Undecided", "population", "read_history"]
