"""Compiling operators whose description was changed by the walker, in as few runs as possible."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_ascendcache.combinations.differences import differences
from pytest_ascendcache.combinations.walker import (
    ENTRY_OF_ITS_OWN,
    SELDOM_ACCEPTED,
    walk,
    with_long_lists,
)
from pytest_ascendcache.conformance.kit.vocabulary import HIT, NEW
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery, Ending, Fact, outcome_fact
from pytest_ascendcache.observation import CacheUnderTest, Run
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.operators import OperatorSpec

Changed = tuple[OperatorSpec, ...]


@dataclass
class Walked:
    """Changed operators: those that are compiled without a cache, with their run, one that is
    refused for each kind of change, and those that need an entry of their own."""

    accepted: dict[OperatorSpec, Run] = field(default_factory=dict)
    refused: dict[str, OperatorSpec] = field(default_factory=dict)
    distinct: set[OperatorSpec] = field(default_factory=set)


def walked(cache: CacheUnderTest, bases: Sequence[OperatorSpec], tries: int, seed: int) -> Walked:
    """Compile without a cache, for each kind of change, changed operators of up to ``tries`` types
    until one is accepted; likewise operators with long lists, of each type that takes one."""
    longer = {each.type: each for base in bases for each in with_long_lists(base)}
    long = _accepted(cache, (each.named(f"long_{each.type}") for each in longer.values()))
    walk_of = Walked(long)
    every = dict(walk(bases, seed, tuple(long)))
    if tries < max(map(len, every.values()), default=0):
        every = _of_one_tensor(every, seed)
    left = {
        what: list(ones[: 1 if what.startswith(SELDOM_ACCEPTED) else tries])
        for what, ones in every.items()
    }
    numbers = itertools.count()
    while left:
        # Each type once in a run, so that no key can mix up what is compiled in it.
        tried: dict[str, OperatorSpec] = {}
        for what, ones in left.items():
            if ones[-1].type not in {each.type for each in tried.values()}:
                tried[what] = ones.pop().named(f"walked_{next(numbers)}")
        accepted = _accepted(cache, tried.values())
        walk_of.accepted |= accepted
        walk_of.distinct |= {
            each for what, each in tried.items() if what.startswith(ENTRY_OF_ITS_OWN)
        }
        for what, each in tried.items():
            if each not in accepted:
                walk_of.refused.setdefault(what, each)
            if each in accepted or not left[what]:
                del left[what]
    return walk_of


def _of_one_tensor(every: Mapping[str, Changed], seed: int) -> dict[str, Changed]:
    """The kinds of changes; of those that an input alone and an output alone undergo, one side."""
    rng = random.Random(seed)
    left = dict(every)
    for what in every:
        side, _, change = what.partition(" ")
        if side == "input" and f"output {change}" in every:
            del left[f"{rng.choice(('input', 'output'))} {change}"]
    return left


def _accepted(cache: CacheUnderTest, operators: Iterable[OperatorSpec]) -> dict[OperatorSpec, Run]:
    """Those of the operators that are compiled; a run ends at the first that is refused."""
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


def sharing(served: Run, distinct: Collection[OperatorSpec]) -> Iterator[Fact]:
    """Facts about operators that are served from the entry of another one. What a tensor was before
    a compiler gave it another layout need not count: the kernel can be the same."""
    owners: dict[frozenset[str], OperatorSpec] = {}
    for each in served.operators:
        if (stems := served.served_from(each)) and owners.setdefault(stems, each) is not each:
            other = owners[stems]
            fields = differences(_without_origins(other), _without_origins(each))
            if fields and (each in distinct or other in distinct):
                detail = f"it shares an entry with {other}: {'; '.join(fields)}"
                yield outcome_fact(HIT, [NEW], each, detail=detail)


def _without_origins(operator: OperatorSpec) -> OperatorSpec:
    inputs, outputs = (
        tuple(replace(each, origin_format="", origin_shape=None) for each in tensors)
        for tensors in (operator.inputs, operator.outputs)
    )
    return replace(operator, inputs=inputs, outputs=outputs)


def not_refused_beside(
    cache: CacheUnderTest, operators: Iterable[OperatorSpec]
) -> dict[OperatorSpec, Run]:
    """The runs of those of the operators that are delivered, crash or hang beside a warm cache."""
    requests = {each: cache.request(each, mode=CacheMode.ENABLE) for each in operators}
    runs = {each: cache.unwatched(request) for each, request in requests.items()}
    return {each: run for each, run in runs.items() if not _is_refused(run)}


def _is_refused(run: Run) -> bool:
    return run.returncode is not None and run.returncode != 0 and not crashed(run.returncode)


def refused_elsewhere(cache: CacheUnderTest, runs: Mapping[OperatorSpec, Run]) -> Iterator[Fact]:
    """Facts about operators that are not refused here, and are refused without a cache."""
    for each, run in runs.items():
        if not _is_refused(_fresh(cache, each)):
            continue
        if not run.succeeded:
            ending = Ending.NO_END if run.returncode is None else Ending.CRASH
            detail = f"it is refused without a cache; beside a warm one it {run.result.ending}"
            yield Fact.seen(ending, detail, each)
        else:
            detail = "it is refused without a cache, and delivered a kernel beside a warm one"
            yield Fact.seen(Delivery.ANOTHER, detail, each)
