"""Determines the harm of a stress run from its last round, and from further runs.

A wrong kernel or a changed foreign directory is harm by itself. After a failed compile or a mixed
entry, further runs show whether the cache works again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery as Kernel
from pytest_ascendcache.contract.facts import Ending, Fact, Later, Numbers, Place
from pytest_ascendcache.contract.harm import Harm, harm_in
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.stress.checker import Kind, Violation
from pytest_ascendcache.stress.executor import Executor
from pytest_ascendcache.stress.history import Compile, Header, RankDelivery, RoundRecord

_SEEN: dict[Kind, Enum] = {
    Kind.WRONG_KERNEL: Kernel.ANOTHER,
    Kind.FOREIGN_DIRECTORY: Place.TOUCHED,
    Kind.RESIDUE: Place.MISPLACED,
    Kind.POISON: Later.FAILS,
    Kind.PACKAGE: Later.LACKS,
    Kind.INDEX: Later.LACKS,
}
"""Kinds that are harm by themselves. For all others, later runs decide."""
_LATER_RUNS = 3


def observed_facts(
    executor: Executor, header: Header, last: RoundRecord, broken: Sequence[Violation]
) -> list[Fact]:
    """The harm that the violations ``broken`` did, in the directories as the last round left them,
    and in further runs unless the worst is known already."""
    seen = [Fact.seen(_SEEN[each.kind], str(each)) for each in broken if each.kind in _SEEN]
    if any(harm_in(each) is Harm.WRONG_RESULT for each in seen):
        return seen
    seen += [
        Fact.seen(Ending.CRASH, f"rank {each.rank} was ended by signal {-each.returncode}")
        for each in last.deliveries
        if each.returncode is not None and crashed(each.returncode)
    ]
    if any(each.kind not in _SEEN for each in broken):
        seen += _later(executor, header, last)
    return seen


def _later(executor: Executor, header: Header, last: RoundRecord) -> Iterator[Fact]:
    """Repeats each compile and job of the last round, one after another."""
    for compile_ in last.round.compiles:
        plain = replace(compile_, mode=CacheMode.ENABLE, limited=False, fault=None)
        ends = []
        for _ in range(_LATER_RUNS):
            ends.append(executor.again(plain))
            if _delivered(ends[-1]):
                break
        yield _afterwards(header, compile_, ends)
    for job in last.round.jobs:
        again = [executor.job_again(job) for _ in range(_LATER_RUNS)]
        what = f"{job.doing.value} {header.networks[job.number]} again"
        if again[-1].returncode != 0:
            yield Fact.seen(Later.FAILS, f"a rank cannot {what}: {again[-1].said}")
        elif again[-1].outputs != header.outputs.get(job.doing.value, ("",) * 9)[job.number]:
            yield Fact.seen(Numbers.WRONG, f"a rank gets other outputs when it does {what}")
        else:
            yield Fact.seen(Ending.FAILURE, f"a rank can {what}")


def _delivered(delivery: RankDelivery) -> bool:
    return delivery.returncode == 0 and "" not in delivery.kernels


def _afterwards(header: Header, compile_: Compile, ends: Sequence[RankDelivery]) -> Fact:
    last = ends[-1]
    if all(each.returncode is None for each in ends):
        return Fact.seen(Ending.NO_END, f"later runs in {compile_.cache} do not end")
    if not _delivered(last):
        what = f"every later run in {compile_.cache} fails, the last with {last.returncode}"
        return Fact.seen(Later.FAILS, what)
    right = [header.kernel(compile_.setting, each) for each in compile_.operators]
    wrong = [
        header.operators[number]
        for number, kernel, expected in zip(compile_.operators, last.kernels, right, strict=True)
        if kernel != expected
    ]
    if wrong:
        return Fact.seen(
            Kernel.ANOTHER, f"a later run in {compile_.cache} gets another kernel for {wrong[0]}"
        )
    return Fact.seen(Ending.FAILURE, f"later runs in {compile_.cache} work")
