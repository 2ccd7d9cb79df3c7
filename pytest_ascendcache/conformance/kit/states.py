"""Bringing an operator's entry into the state a check starts from, and what must not be left."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import Capability, EntryState
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


def take_debug_config(cache: CacheUnderTest) -> None:
    """Have compiles take ``op_debug_config``: as models where single operators do not take it."""
    toolchain = cache.toolchain
    if Capability.DEBUG_CONFIG not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {Capability.DEBUG_CONFIG.lacking}")
    cache.as_model = Capability.SINGLE_OP_DEBUG not in toolchain.capabilities


_ENDINGS = (".o", ".json", ".h", ".lock", "_pre.json", "_pre.lock")
"""What CANN keeps of an entry. Source: facts ``cann-operator-cache`` section 1.2."""


def residue(cache: CacheUnderTest) -> list[str]:
    """Files named after entries that are neither an entry's nor a lock."""
    known = {stem + ending for stem in cache.entries() for ending in _ENDINGS}
    names = [path.name for path in cache.layout.soc(cache.options.soc).iterdir()]
    extra = [name for name in names if name not in known and "te_" in name]
    # A lock of the directory, and one of aging; a lock for each process would be residue.
    locks = [name for name in names if name.endswith(".lock") and name not in known]
    return extra + (locks if len(locks) > 2 else [])
