"""Bringing an operator's entry into the state a check starts from."""

from __future__ import annotations

from pytest_ascendcache.contract import EntryState
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec


def bring_into(cache: CacheUnderTest, operator: OperatorSpec, state: EntryState) -> None:
    """Leave the cache without, with a valid, or with a damaged entry for an operator."""
    if state is EntryState.NONE:
        return
    cache.warm(operator)
    if state is EntryState.DAMAGED:
        DAMAGES[1].apply(cache.entry(operator))
