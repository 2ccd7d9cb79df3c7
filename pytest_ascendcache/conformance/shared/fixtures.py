"""Caches that several nodes share."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.faults import Action
from pytest_ascendcache.observation import CacheUnderTest, SharedCache

__all__ = ["held", "shared"]


@pytest.fixture
def shared(cache: CacheUnderTest, ascend_nodes: SharedCache) -> SharedCache:
    """The cache as the nodes see it. A toolchain that reuses no entry would share nothing."""
    cache.needs_reuse()
    return ascend_nodes


@pytest.fixture
def held(shared: SharedCache) -> SharedCache:
    """The same, for a toolchain that can be held."""
    needs(shared.backing.toolchain, Action.HOLD)
    return shared
