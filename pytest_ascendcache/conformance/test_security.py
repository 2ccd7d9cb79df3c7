"""Security: what a cache directory may contain, and who may change it."""

from __future__ import annotations

import pytest

from pytest_ascendcache.cachedir import Entry, Snapshot, find_canaries, plant_canary
from pytest_ascendcache.conformance.vocabulary import (
    ENABLE,
    FORCE,
    MODES,
    rule,
)
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec


def _poison(victim: Entry, other: Entry, how: str) -> bytes:
    """Put a marked kernel where it does not belong; returns the marked object."""
    if how == "object-replaced":
        # The operator's own object, marked, while the metadata keeps the old digest.
        metadata = victim.metadata_path.read_bytes()
        plant_canary(victim)
        victim.metadata_path.write_bytes(metadata)
        return Entry(victim.stem, victim.directory).object or b""
    plant_canary(other)
    poison = Entry(other.stem, other.directory).object or b""
    victim.object_path.unlink()
    if how == "object-behind-a-link":
        victim.object_path.symlink_to(other.object_path)
    else:
        victim.object_path.write_bytes(poison)
    return poison


@rule("security/verify-before-load")
@pytest.mark.parametrize("how", ["object-of-another", "object-behind-a-link", "object-replaced"])
def test_an_object_with_a_wrong_digest_is_not_served(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, how: str
) -> None:
    cache.marks = False
    cache.warm(add, mul)
    poison = _poison(cache.entry(add), cache.entry(mul), how)
    run = cache.attempt(add, mode=ENABLE)
    if run.succeeded:
        delivered = find_canaries(run.model(add).read_bytes())
        assert not delivered & find_canaries(poison), "an unverified object was delivered"
        assert run.kernel(add) == cache.fresh(add), "a wrong kernel was delivered"


@rule("security/private-modes")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_nothing_of_the_cache_is_world_writable(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    cache.compile(add, mode=mode, umask=0)
    cache.compile(add, mode=mode, umask=0)
    files = Snapshot.take(cache.root).files
    assert files, "there is no cache to look at"
    open_to_all = {path: oct(state.mode) for path, state in files.items() if state.mode & 0o002}
    assert open_to_all == {}


@rule("security/private-modes")
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_left_in_the_working_directory(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    cache.compile(add, mode=mode)
    assert [path.name for path in cache.work.iterdir()] == []
