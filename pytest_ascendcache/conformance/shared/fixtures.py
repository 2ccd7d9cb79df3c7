"""Caches that several nodes share."""

from __future__ import annotations

import pytest

from pytest_ascendcache.faults import Action
from pytest_ascendcache.observation import CacheUnderTest, SharedCache

__all__ = ["held", "shared"]


@pytest.fixture
def shared(cache: CacheUnderTest, ascend_nodes: SharedCache) -> SharedCache:
    """The cache of this check as the nodes see it. What only ever compiles shares nothing."""
    cache.needs_reuse()
    return ascend_nodes


@pytest.fixture
def held(shared: SharedCache) -> SharedCache:
    """The same, of a toolchain that can be made to stand still."""
    toolchain = shared.backing.toolchain
    if Action.HOLD not in toolchain.fault_route().actions:
        pytest.skip(f"{toolchain.name}: it cannot be held at a file operation")
    return shared
