"""Each version alone: after any change of a part's version, no kernel from before is served, as
markers tell. Parts are in ``StagedChange.versions``: toolkit, operator package, compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations

import pytest

from pytest_ascendcache.caches import find_canaries
from pytest_ascendcache.conformance.kit.own_entries import remove
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkUnderTest,
    NotDecidable,
    probe_network,
)
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import StagedChange

OLD, NEW = "8.0.RC1", "8.1.RC1"
STEPS: dict[str, tuple[str, str]] = {
    "up": (OLD, NEW),
    "down": (NEW, OLD),
    "begins-alike": (OLD, f"{OLD}0"),
    "begins-alike-down": (f"{OLD}0", OLD),
    "last-number": ("7.7.0.1.238", "7.7.0.1.239"),
    "as-a-fraction": ("8.1", "8.10"),
    "same-length": (OLD, "8.0.RC2"),
    "release-after-candidate": (OLD, "8.0"),
}
"""Two versions of one part, one after the other."""
FILE = "Version={}\nversion_dir=8.1.RC1\ntimestamp=20250301_000012345\n"
"""A version.info as CANN's packages have it; of patch releases only the first line differs."""
SPELLINGS: dict[str, str] = {
    "a-blank-at-the-end": "Version={} \n",
    "CRLF": "Version={}\r\n",
    "no-last-newline": "Version={}",
    "more-lines": "Name=part\nVersion={}\ntimestamp=20250401_000012345\n",
}
"""The same version in a file that is written otherwise. It may count as another one once."""
HOUR = 3600 * 10**9


class VersionParts:
    """The parts of a toolchain, and a cache that other versions of them have filled."""

    def __init__(self, cache: CacheUnderTest, operator: OperatorSpec, change: StagedChange) -> None:
        self.names = tuple(change.versions)
        self._cache, self._operator, self._change = cache, operator, change
        self._originals = {name: path.read_bytes() for name, path in change.versions.items()}

    def state(self, text: str = FILE, **versions: str) -> None:
        """Give these parts these versions, or none if empty, with the file times that they have."""
        for name, version in versions.items():
            path = self._change.versions[name]
            times = path.stat() if path.exists() else None
            path.unlink(missing_ok=True)
            if version:
                path.write_text(text.format(version), encoding="utf-8", newline="")
            if version and times:
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def back(self) -> None:
        """Give every part the version that it had at first."""
        for name, data in self._originals.items():
            self._change.versions[name].write_bytes(data)

    def served(self, may_fail: bool = False) -> set[str]:
        """The tokens of the markers in the kernel that a compile delivers now. ``may_fail`` allows
        it to deliver none."""
        compiles = self._cache.attempt if may_fail else self._cache.compile
        run = compiles(self._operator, mode=ENABLE, environment=self._change.environment)
        if run.marked is None:
            raise NotDecidable("this toolchain does not serve marked entries")
        return (
            set(find_canaries(run.model(self._operator).read_bytes())) if run.succeeded else set()
        )

    def filled(self) -> set[str]:
        """Store an entry in an empty cache, and return the tokens of its markers."""
        self._cache.needs_readable_entries()
        remove(self._cache.root)
        self.served()
        self._cache.mark()
        return set(self._cache.known_state()[0])

    def none_of(self, old: set[str], what: str, may_fail: bool = False) -> None:
        """Break the check if an old kernel is served."""
        assert not self.served(may_fail) & old, self._cache.evidence.found(
            Delivery.STALE, f"{what}: a kernel from before is served"
        )


@pytest.fixture
def parts(cache: CacheUnderTest, add: OperatorSpec) -> VersionParts:
    """The parts whose versions can be set. Skips if there are none."""
    needs(cache.toolchain, Capability.VERSION_STAMP)
    cache.needs_reuse()
    change = cache.toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    if not change.versions:
        pytest.skip(f"{cache.toolchain.name}: {Capability.VERSION_STAMP.lacking}")
    return VersionParts(cache, add, change)


def _told(versions: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name} {version or 'without a version'}" for name, version in versions.items()
    )


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("step", STEPS)
def test_each_part_alone_voids_the_cache(parts: VersionParts, step: str) -> None:
    """The other parts keep their version. File times stay as they were."""
    before, after = STEPS[step]
    for name in parts.names:
        parts.back()
        parts.state(**{name: before})
        old = parts.filled()
        parts.state(**{name: after})
        parts.none_of(old, _told({name: f"{before}, then {after}"}))


@rule("robust/upgrade-stamp")
def test_each_part_alone_voids_what_networks_left(
    network: NetworkUnderTest, add: OperatorSpec
) -> None:
    """The same for kernels of ranks, which may have no version but that in their own files."""
    needs(network.toolchain, Capability.INCREMENTAL_BUILD, Capability.VERSION_STAMP)
    network.needs_reuse()
    change = network.toolchain.stage(Capability.VERSION_STAMP, add, network.sandbox)
    if not change.versions:
        pytest.skip(f"{network.toolchain.name}: {Capability.VERSION_STAMP.lacking}")
    square = probe_network("Square")
    for name, path in change.versions.items():
        network.cache = network.site / f"cache-{name}"
        path.write_text(FILE.format(OLD), encoding="utf-8")
        network.run(square, environment=change.environment)
        network.mark()
        path.write_text(FILE.format(NEW), encoding="utf-8")
        run = network.run(square, environment=change.environment)
        assert not run.reused, network.evidence.found(
            Delivery.STALE, f"{_told({name: f'{OLD}, then {NEW}'})}: a kernel from before is run"
        )


@rule("robust/upgrade-stamp")
def test_a_cache_that_tells_no_version_is_of_another_one(
    parts: VersionParts, cache: CacheUnderTest
) -> None:
    """All files are lost but the entries: so an older release leaves a cache that stamps none."""
    for name in parts.names:
        parts.back()
        old = parts.filled()
        entries = {path for entry in cache.entries().values() for path in entry.paths}
        for path in set(cache.root.rglob("*")) - entries:
            if not path.is_dir():
                path.unlink()
        parts.state(**{name: NEW})
        parts.none_of(old, f"{_told({name: NEW})}, and no file tells the version from before")


@rule("robust/upgrade-stamp")
def test_several_parts_void_the_cache(parts: VersionParts) -> None:
    """All at once, and two parts that change places: the versions are the same, of other parts."""
    places = {name: f"8.{number}.RC1" for number, name in enumerate(parts.names)}
    everything = dict.fromkeys(parts.names, NEW)
    for versions in (everything, *_swapped(places)):
        parts.state(**places)
        old = parts.filled()
        parts.state(**versions)
        parts.none_of(old, f"{_told(places)}, then {_told(versions)}")


def _swapped(places: Mapping[str, str]) -> list[dict[str, str]]:
    names = list(places)
    orders = [order for order in permutations(places.values()) if list(order) != [*places.values()]]
    return [dict(zip(names, order, strict=True)) for order in orders]


@rule("robust/upgrade-stamp")
def test_a_part_without_a_version_is_another_one(parts: VersionParts) -> None:
    """Its file is removed, and comes back with another version. A toolchain may refuse to work
    without it."""
    for name in parts.names:
        parts.back()
        old = parts.filled()
        for version in ("", NEW):
            parts.state(**{name: version})
            parts.none_of(old, _told({name: version}), may_fail=not version)


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("hours", [-48, 48], ids=["old-files", "files-of-the-future"])
def test_file_times_do_not_tell_a_version(
    parts: VersionParts, cache: CacheUnderTest, hours: int
) -> None:
    """Archives and clocks of other hosts give the files of a cache any time."""
    for name in parts.names:
        parts.back()
        parts.state(**{name: OLD})
        old = parts.filled()
        for path in (*cache.root.rglob("*"), cache.root):
            times = path.lstat()
            moved = times.st_mtime_ns + hours * HOUR
            os.utime(path, ns=(times.st_atime_ns, moved), follow_symlinks=False)
        parts.state(**{name: NEW})
        parts.none_of(old, f"{name}, where files were written {hours} hours from now")


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_version_that_is_written_otherwise_stays_one(parts: VersionParts, spelling: str) -> None:
    """After one compile at most, entries are reused again, and another version still counts."""
    for name in parts.names:
        parts.back()
        parts.state(**{name: OLD})
        parts.filled()
        parts.state(SPELLINGS[spelling], **{name: OLD})
        kept = parts.filled()
        assert parts.served() & kept, f"{name}, {spelling}: every run is of another version"
        parts.state(SPELLINGS[spelling], **{name: NEW})
        parts.none_of(kept, f"{name}, {spelling}")
