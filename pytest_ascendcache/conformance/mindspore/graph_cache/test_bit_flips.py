"""Flips single bits all over the file of a compiled network, and tells apart a wrong result, a
crash, a hang and a network that no run can use any more. A cache may notice a flip, or not need
to."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_ascendcache.caches.entry import rewrite
from pytest_ascendcache.conformance.kit.mindspore_stories import HANGS, ONE, hangs, last_words
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Ending, Fact, Later, Numbers
from pytest_ascendcache.contract.harm import harm_in
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation import NetworkRun, NetworkUnderTest

PARTS, PLACES = 4, 52
"""Checks, and flips in each: 208 in all."""

SEED = 20_260_101
"""The sample is the same in every session. The file is not, because it contains a time."""


def places(size: int, part: int) -> Iterator[tuple[int, int]]:
    """Indexes of bytes spread over a file of ``size`` bytes, with a bit of each."""
    drawn = random.Random(SEED)
    every = PARTS * PLACES
    for number in range(every):
        begin, end = number * size // every, (number + 1) * size // every
        place, bit = drawn.randrange(begin, max(end, begin + 1)), drawn.randrange(8)
        if number % PARTS == part:
            yield min(place, size - 1), bit


def fact_of(network: NetworkUnderTest) -> Fact | None:
    """What the next run suffers from the cache. A failing run is followed by another."""
    run = _next(network)
    if run.returncode is None:
        return Fact.seen(Ending.NO_END, hangs(HANGS))
    if run.succeeded:
        return _wrong(run)
    again = _next(network)
    how = f"{run.result.ending}: {last_words(run)}"
    if not again.succeeded:
        return Fact.seen(Later.FAILS, f"every run {how}")
    if run.returncode < 0:
        return Fact.seen(Ending.CRASH, f"the next run {how}; the one after it works")
    return Fact.seen(Ending.FAILURE, f"the next run {how}; the one after it works")


def _next(network: NetworkUnderTest) -> NetworkRun:
    with network.watch() as watch:
        return watch.wait(watch.start(network.request(ONE)), HANGS)


def _wrong(run: NetworkRun) -> Fact | None:
    for name, how in run.wrong.items():
        return Fact.seen(Numbers.WRONG, f"the next run ends well with wrong outputs: {name} {how}")
    return None


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_flipped_bit_does_harm(network: NetworkUnderTest, part: int) -> None:
    network.run(ONE)
    (graph,) = network.kernels().values()
    whole, kept = graph.object_path.read_bytes(), network.sandbox / "whole"
    copy_tree(network.cache, kept)
    facts: list[Fact] = []
    for place, bit in places(len(whole), part):
        shutil.rmtree(network.cache)
        copy_tree(kept, network.cache)
        flipped = bytes([whole[place] ^ 1 << bit])
        rewrite(graph.object_path, whole[:place] + flipped + whole[place + 1 :])
        if (fact := fact_of(network)) is not None:
            where = f"byte {place} of {len(whole)}, bit {bit}"
            facts.append(replace(fact, detail=f"{where}: {fact.detail}"))
    facts.sort(key=lambda each: harm_in(each).rank)
    network.evidence.facts += facts
    counts = Counter(harm_in(each).value for each in facts)
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    assert not facts, f"of {PLACES} flipped bits: {listed}; {facts[0].detail}"
