"""Compiling operators whose description was changed by the walker, in as few runs as possible."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_ascendcache.combinations.walker import walk
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery, Fact
from pytest_ascendcache.observation import CacheUnderTest, Run
from pytest_ascendcache.operators import OperatorSpec


@dataclass
class Walked:
    """Changed operators: those that the toolchain compiles without a cache, with the run that
    compiled each, and one that it refuses for each kind of change of which it refuses any."""

    accepted: dict[OperatorSpec, Run] = field(default_factory=dict)
    refused: dict[str, OperatorSpec] = field(default_factory=dict)


def walked(cache: CacheUnderTest, bases: Sequence[OperatorSpec], tries: int, seed: int) -> Walked:
    """Compile without a cache, for each kind of change, changed operators of up to ``tries`` types
    until one is accepted."""
    walk_of = Walked()
    left = {what: list(ones[:tries]) for what, ones in walk(bases, seed)}
    numbers = itertools.count()
    while left:
        # Each type once in a run, so that no key can mix up what is compiled in it.
        tried: dict[str, OperatorSpec] = {}
        for what, ones in left.items():
            if ones[-1].type not in {each.type for each in tried.values()}:
                tried[what] = ones.pop().named(f"walked_{next(numbers)}")
        accepted = _accepted(cache, tried.values())
        walk_of.accepted |= accepted
        for what, each in tried.items():
            if each not in accepted:
                walk_of.refused.setdefault(what, each)
            if each in accepted or not left[what]:
                del left[what]
    return walk_of


def _accepted(cache: CacheUnderTest, operators: Iterable[OperatorSpec]) -> dict[OperatorSpec, Run]:
    """Those of the operators that are compiled, many in one run. A run ends at the first operator
    that is refused."""
    left, accepted = [*operators], dict[OperatorSpec, Run]()
    while left:
        run = _fresh(cache, *left)
        delivered = zip(left, run.result.delivered, strict=True)
        new = dict.fromkeys([each for each, path in delivered if path is not None], run)
        accepted |= new
        if run.succeeded:
            break
        left = [each for each in left if each not in new]
        if not new and len(left) > 1 and cache.as_model:
            half = len(left) // 2
            return accepted | _accepted(cache, left[:half]) | _accepted(cache, left[half:])
        left = left[1:]
    return accepted


def _fresh(cache: CacheUnderTest, *operators: OperatorSpec) -> Run:
    unused = cache.sandbox / "unused"
    return cache.unwatched(cache.request(*operators, mode=CacheMode.DISABLE, cache_dir=unused))


def refused_elsewhere(cache: CacheUnderTest, operators: Iterable[OperatorSpec]) -> Iterator[Fact]:
    """Facts about operators that are refused without a cache and delivered beside this one."""
    for each in operators:
        run = cache.unwatched(cache.request(each, mode=CacheMode.ENABLE))
        if run.succeeded and not _fresh(cache, each).succeeded:
            detail = "it is refused without a cache, and delivered a kernel beside a warm one"
            yield Fact.seen(Delivery.ANOTHER, detail, each)
