"""Security: what a cache directory may contain, and who may change it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pytest_ascendcache.caches import (
    Change,
    Entry,
    Snapshot,
    find_canaries,
    keep_access_times,
    plant_canary,
)
from pytest_ascendcache.conformance.kit.shelf import HOUR, KILOBYTE, Shelf
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, MODES, needs, rule
from pytest_ascendcache.contract import CacheMode, Capability, other_soc
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE, MEGABYTE
from pytest_ascendcache.contract.facts import Ending, Place
from pytest_ascendcache.faults import damage_named
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    NotDecidable,
    Run,
    StaticKernelsUnderTest,
    probe_network,
)
from pytest_ascendcache.observation.invariants import REPORT
from pytest_ascendcache.operators import OperatorSpec

_POISONS = (
    *("object-of-another", "object-behind-a-link", "object-replaced"),
    *("object-flipped", "entry-of-another"),
)


def _poison(victim: Entry, other: Entry, how: str) -> bytes:
    """Put a marked or damaged object where it does not belong. Returns the object."""
    if how == "object-flipped":
        # Unmarked and of the same size; only one bit of its code differs.
        damage_named("object-code-flipped").apply(victim)
        return victim.object_path.read_bytes()
    if how == "object-replaced":
        # The operator's own object with a marker, while the metadata keeps the old digest.
        metadata = victim.metadata_path.read_bytes()
        plant_canary(victim)
        victim.metadata_path.write_bytes(metadata)
        return Entry(victim.stem, victim.directory).object_bytes or b""
    plant_canary(other)
    poison = Entry(other.stem, other.directory).object_bytes or b""
    victim.object_path.unlink()
    if how == "entry-of-another":
        # Both files, so that digest and object agree.
        victim.object_path.write_bytes(poison)
        victim.metadata_path.write_bytes(other.metadata_path.read_bytes())
    elif how == "object-behind-a-link":
        victim.object_path.symlink_to(other.object_path)
    else:
        victim.object_path.write_bytes(poison)
    return poison


@rule("security/verify-before-load")
@pytest.mark.parametrize("how", _POISONS)
def test_an_object_with_a_wrong_digest_is_not_served(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, how: str
) -> None:
    cache.needs_reuse()
    cache.marks = False
    cache.warm(add, mul)
    poison = _poison(cache.entry(add), cache.entry(mul), how)
    run = cache.attempt(add, mode=ENABLE)
    if run.succeeded:
        delivered = find_canaries(run.model(add).read_bytes())
        unverified = delivered & find_canaries(poison) or run.kernel(add) == poison
        assert not unverified, "an unverified object was delivered"
        assert cache.delivers_fresh(run, add), "a wrong kernel was delivered"
    else:
        refused = (run.returncode or 0) > 0
        assert refused, cache.evidence.found(Ending.CRASH, f"the compile {run.result.ending}")


@rule("security/private-modes")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_nothing_of_the_cache_is_world_writable(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    for _ in range(2):
        cache.compile(add, mode=mode, umask=0)
        _is_private(cache)


@rule("security/private-modes")
def test_nothing_of_a_rank_is_world_writable(network: NetworkUnderTest) -> None:
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    for rank in (None, 1):
        request = replace(network.request(probe_network("Square"), rank), umask=0)
        assert network.attempt(request).wrong == {}
    _is_private(network)


@rule("security/private-modes")
def test_nothing_of_installed_kernels_is_world_writable(
    kernels: StaticKernelsUnderTest, add: OperatorSpec
) -> None:
    """After an install, and after one beside another that goes again."""
    first, second = (kernels.package(add, name=each) for each in ("pk", "pk2"))
    for request in (
        *map(kernels.installation, (first, second)),
        kernels.removal("pk2"),
    ):
        assert kernels.attempt(replace(request, umask=0)).succeeded
        _is_private(kernels)


def _is_private(caches: CacheUnderTest | NetworkUnderTest | StaticKernelsUnderTest) -> None:
    """Assert that nothing of the cache is world-writable. Links have no modes."""
    if isinstance(caches, NetworkUnderTest):
        root = caches.cache
    else:
        root = caches.root if isinstance(caches, CacheUnderTest) else caches.opp
    files = Snapshot.take(root.parent).files
    below = {path: each for path, each in files.items() if path.split("/")[0] == root.name}
    assert len(below) > 1, "there is no cache to look at"
    for path, state in below.items():
        assert state.kind == "link" or not state.mode & 0o002, caches.evidence.found(
            Place.OPEN_TO_ALL, f"{path} has the modes {state.mode:04o}", path
        )


@rule("security/private-modes")
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_left_in_the_working_directory(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    cache.compile(add, mode=mode)
    assert [path.name for path in cache.work.iterdir() if path.name != REPORT] == []


@pytest.fixture
def outside(cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec) -> Path:
    """A directory next to the cache with a marked kernel of ``add``. The cache holds both operators
    as the toolchain wrote them."""
    cache.marks = False
    keep_access_times(cache.sandbox, keep=False)  # else a scan keeps entries young
    cache.warm(add, mul)
    entry = cache.entry(add)
    directory = cache.sandbox / "outside"
    lure = Entry(entry.stem, directory)  # below a directory of its own, if the entry is
    lure.object_path.parent.mkdir(parents=True)
    for path in (entry.object_path, entry.metadata_path):
        shutil.copy2(path, lure.object_path.parent)
    plant_canary(lure)
    for path in directory.rglob("*"):
        _age(path, 5)  # aging removes only what looks idle
    return directory


def _age(path: Path, hours: int) -> None:
    """Set the times of a file, or of a link itself, to hours ago."""
    long_ago = time.time_ns() - int(hours * HOUR) * 10**9
    os.utime(path, ns=(long_ago, long_ago), follow_symlinks=False)


def _unchanged(directory: Path, before: Snapshot, may_grow: bool = False) -> None:
    changes = before.disturbed(Snapshot.take(directory))
    free = (Change.ADDED,) if may_grow else ()
    changed = {path: each.value for path, each in changes.items() if each not in free}
    assert changed == {}, f"outside of the cache: {changed}"


_NAMES = {
    "relative": ("{relative}/{stem}", ".o"),
    "absolute": ("{outside}/{stem}", ".o"),
    "suffix": ("{stem}", "/../{relative}/{stem}.o"),
}
"""Name and suffix of the object in the metadata, relative to the chip's directory."""


@rule("security/no-path-escape")
@pytest.mark.parametrize("how", _NAMES)
@pytest.mark.parametrize("what", ["enable", "force", "aging"])
def test_a_name_in_metadata_leads_nowhere(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, outside: Path, how: str, what: str
) -> None:
    if what == "enable":
        cache.needs_reuse()
    entry = cache.entry(add)
    places = {"outside": outside, "relative": os.path.relpath(outside, entry.directory)}
    name, suffix = (part.format(stem=entry.stem, **places) for part in _NAMES[how])
    lure = Entry(entry.stem, outside)
    fields = {**lure.metadata, "binFileName": name, "binFileSuffix": suffix}
    entry.metadata_path.write_text(json.dumps(fields))
    if how == "suffix":  # without this directory the path would not exist
        (entry.directory / entry.stem).mkdir()
    before = Snapshot.take(outside)
    run = _run_past(cache, what, add, mul, partial(_unchanged, outside, before))
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"
    if what == "enable":
        assert not find_canaries(run.model(add).read_bytes()), "an object from outside is served"
        assert cache.delivers_fresh(run, add), "a wrong kernel is delivered"
    _unchanged(outside, before)


_LINKED = {"entry": (".o", ".json"), "object": (".o",), "metadata": (".json",)}
"""Which files of an entry are links. A file that is not one has a size, so the entry ages."""


@rule("security/no-symlink-follow")
@pytest.mark.parametrize("what", ["enable", "force", "aging", "upgrade"])
@pytest.mark.parametrize("link", [*_LINKED, "directory", "file", "soc", "other-soc"])
def test_what_a_link_points_to_stays(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, outside: Path, link: str, what: str
) -> None:
    entry = cache.entry(add)
    lure = Entry(entry.stem, outside)
    if link in _LINKED:
        for suffix in _LINKED[link]:
            path = entry.directory / f"{entry.stem}{suffix}"
            path.unlink()
            path.symlink_to(outside / path.relative_to(entry.directory))
    elif link == "directory":
        (entry.directory / "te_linked").symlink_to(outside)
    elif link == "file":
        (entry.directory / f"te_linked_{'0' * 64}.o").symlink_to(lure.object_path)
    elif link == "other-soc":
        other = other_soc(cache.options.soc)
        entry.directory.with_name(other).symlink_to(outside)
        Shelf(cache, other).lay("b", MEGABYTE + KILOBYTE, 6)
    else:
        shutil.rmtree(entry.directory)
        entry.directory.symlink_to(outside)
    before = Snapshot.take(outside)
    run = _run_past(cache, what, add, mul, partial(_unchanged, outside, before))
    assert run.succeeded or link == "soc", f"the compile {run.result.ending}"
    if link != "soc" or what != "enable":  # a linked chip directory may be used
        _unchanged(outside, before, may_grow=link == "soc")


def _run_past(
    cache: CacheUnderTest,
    what: str,
    add: OperatorSpec,
    mul: OperatorSpec,
    nothing_is_touched: Callable[[], None],
) -> Run:
    """Compile so that the entry of ``add`` is looked up, purged, aged or made void."""
    if what in ("enable", "force"):
        return cache.attempt(add if what == "enable" else mul, mode=CacheMode(what))
    directory = cache.layout.soc(cache.options.soc)
    is_there = not directory.is_symlink()
    if what == "aging" and is_there:
        Shelf(cache).lay("a", MEGABYTE + KILOBYTE, 6)
        # The lures are the oldest, so aging removes them first.
        for path in directory.iterdir():
            _age(path, 4 if path.name.startswith("te_shelf") else 5)
    names = {each.name for each in directory.iterdir()}
    if what == "aging":
        run = cache.attempt(mul, mode=ENABLE, environment={ENV_SIZE: "1", ENV_RATIO: "1"})
    else:
        run = _upgraded(cache, mul)
    if run.succeeded and is_there and {each.name for each in directory.iterdir()} >= names:
        nothing_is_touched()
        if what == "upgrade":
            pytest.skip("a version change removes nothing")
        raise NotDecidable("nothing was removed, so that nothing was led astray")
    return run


def _upgraded(cache: CacheUnderTest, operator: OperatorSpec) -> Run:
    """Compile with another version than the one that stored the entries."""
    needs(cache.toolchain, Capability.VERSION_STAMP)
    change = cache.toolchain.stage(Capability.VERSION_STAMP, operator, cache.sandbox)
    cache.attempt(operator, mode=ENABLE, environment=change.environment)
    change.apply()
    return cache.attempt(operator, mode=ENABLE, environment=change.environment)
