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
from pytest_ascendcache.faults import DAMAGES
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
    if how == "entry-of-another":
        # Both files, so that digest and object agree with each other.
        victim.object_path.write_bytes(poison)
        victim.metadata_path.write_bytes(other.metadata_path.read_bytes())
    elif how == "object-behind-a-link":
        victim.object_path.symlink_to(other.object_path)
    else:
        victim.object_path.write_bytes(poison)
    return poison


@rule("security/verify-before-load")
@pytest.mark.parametrize(
    "how", ["object-of-another", "object-behind-a-link", "object-replaced", "entry-of-another"]
)
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
    for _ in range(2):
        cache.compile(add, mode=mode, umask=0)
        assert _world_writable(cache) == {}


@rule("security/private-modes")
def test_a_healed_entry_is_not_world_writable(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    DAMAGES[1].apply(cache.entry(add))
    cache.compile(add, mode=ENABLE, umask=0)
    assert _world_writable(cache) == {}


def _world_writable(cache: CacheUnderTest) -> dict[str, str]:
    """Paths of the cache that everybody may write, with their modes; links have none."""
    files = Snapshot.take(cache.root.parent).files
    below = {path: each for path, each in files.items() if path.split("/")[0] == cache.root.name}
    assert len(below) > 1, "there is no cache to look at"
    return {
        path: oct(state.mode)
        for path, state in below.items()
        if state.mode & 0o002 and state.kind != "link"
    }


@rule("security/private-modes")
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_left_in_the_working_directory(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    cache.compile(add, mode=mode)
    assert [path.name for path in cache.work.iterdir()] == []


@rule("security/private-modes")
def test_debugging_leaves_only_kernel_meta_there(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.compile(add, mode=ENABLE, debug_level=1)
    names = {path.name for path in cache.work.iterdir()}
    assert [name for name in names if not name.startswith("kernel_meta")] == []
