"""Document C: the same promises with hundreds of entries, three chips and large objects."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Entry, keep_access_times
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.conformance.kit.judge import aging_facts
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, environment
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    ENABLE,
    HIT,
    OTHER_SOCS,
    REPLACED,
    rule,
)
from pytest_ascendcache.contract import CacheLimits, Capability, other_soc
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.operators import OperatorSpec

HUNDREDS = 300
NAMES = [f"idle_{number:03}" for number in range(HUNDREDS)]
SIZES = {"a few kilobytes more": 100 * KILOBYTE, "megabytes more": 3 * KILOBYTE**2}


def _many(cache: CacheUnderTest, soc: str | None = None, size: int = 20 * KILOBYTE) -> Shelf:
    """300 entries, unused for 4 to 10 hours, the first one longest."""
    cache.marks = False
    hours = [10 - 6 * number / HUNDREDS for number in range(HUNDREDS)]
    return Shelf(cache, soc).lay(NAMES, size, *hours)


def _chips(cache: CacheUnderTest, add: OperatorSpec) -> list[str]:
    """The chip under test and the other chips that the toolchain compiles for."""
    soc = cache.toolchain.soc
    others = [other_soc(soc, each) for each in OTHER_SOCS]
    return [soc, *(each for each in others if each != soc and not cache.lacks(each, add))]


@rule("robust/upgrade-stamp")
def test_another_version_empties_every_chip(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """No kernel of the old version is served, whichever chip is compiled for."""
    cache.needs_reuse()
    change = cache.toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    variables = dict(change.environment)
    chips = _chips(cache, add)
    for chip in chips:
        cache.compile(add, mode=ENABLE, soc=chip, environment=variables)
    if len(chips) == 1:
        cache.evidence.notes.append("the toolchain compiles for one chip only here")
    change.apply()
    run = cache.compile(add, mode=ENABLE, environment=variables)
    assert run[add].delivered is COMPILED, cache.evidence.found(
        Delivery.STALE, "a kernel of the old version is served"
    )
    for chip in chips[1:]:
        run = cache.compile(add, mode=ENABLE, soc=chip, environment=variables)
        assert run[add].delivered is COMPILED, cache.evidence.found(
            Delivery.STALE, f"a kernel of the old version is served for {chip}"
        )


@rule("aging/oldest-first")
def test_of_hundreds_the_oldest_go(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """300 entries of 20 KB, 4 MB, 50 %: about 200 go, those unused longest."""
    # Rule aging/works-on-relatime judges aging on the mount at hand.
    keep_access_times(cache.sandbox, keep=False)
    cache.warm(add)
    shelf = _many(cache)
    run = cache.compile(add, mode=ENABLE, environment=environment(4, 50))
    due, gone = shelf.aged(run, CacheLimits(4, 50))
    shelf.needs_file_times(due.must_go, due.must_stay)
    torn = {name for name in NAMES if len(set(shelf.there(name))) > 1}
    wrong = {"left": due.must_go - gone, "gone": gone & due.must_stay}
    detail = ", ".join(
        f"{len(names)} {what}, from {min(names)} to {max(names)}"
        for what, names in wrong.items()
        if names
    )
    subject = shelf.limiting(run)
    require_none(aging_facts(due, gone, torn, detail, subject=subject), cache.evidence)


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("larger", SIZES, ids=lambda each: each.replace(" ", "-"))
@pytest.mark.parametrize("place", ["behind", "last"])
def test_a_large_entry_is_verified_to_its_end(
    cache: CacheUnderTest, add: OperatorSpec, larger: str, place: str
) -> None:
    """An object enlarged by zeros, with its digest corrected, may be served. With one of these
    bytes changed it is not."""
    if not cache.marks:
        raise NotDecidable(f"marked entries are not served: {cache.control.reason}")
    cache.warm(add)
    cache.mark()
    entry = cache.entry(add)
    enlarge(entry, SIZES[larger])
    run = cache.compile(add, mode=ENABLE)
    if run[add] != HIT:
        raise NotDecidable("an entry that was enlarged is not served")
    data = bytearray(entry.object_path.read_bytes())
    data[-1 if place == "last" else -SIZES[larger] // 3] ^= 1
    entry.object_path.write_bytes(data)
    run = cache.compile(add, mode=ENABLE)
    assert run[add] == REPLACED, f"a byte {place} of an object of {len(data)} bytes is changed"


@rule("robust/heals-damaged-entry")
def test_a_large_kernel_as_it_was_written_is_verified_to_its_end(cache: CacheUnderTest) -> None:
    """What the toolchain itself wrote, with a byte near its end changed."""
    count = 64
    shapes = [(4, 8)] * count
    concat = operator_of("ConcatD", *shapes, outs=((4, 8 * count),), concat_dim=1, N=count)
    cache.marks = False
    cache.warm(concat.named("large"))
    path = cache.entry(concat.named("large")).object_path
    data = bytearray(path.read_bytes())
    data[-300] ^= 1
    path.write_bytes(data)
    cache.trust_marks()
    problem = cache.recovery(concat.named("large"))
    assert problem is None, cache.evidence.found(
        problem, f"byte {len(data) - 300} of an object of {len(data)} bytes is changed: {problem}"
    )


def enlarge(entry: Entry, size: int) -> None:
    """Append zeros to an object and correct the digest, so the entry stays valid."""
    data = entry.object_path.read_bytes() + bytes(size)
    metadata = {**entry.metadata, "sha256": sha256(data)}
    _write(entry.object_path, data)
    _write(entry.metadata_path, json.dumps(metadata, indent=4, sort_keys=True).encode())


def _write(path: Path, data: bytes) -> None:
    """Replace a file's bytes and keep its times."""
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
