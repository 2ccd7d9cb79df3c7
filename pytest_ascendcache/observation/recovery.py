"""Interrupting compiles of a cache under test, and asking whether it has recovered.

The question is always the same: does the next run deliver a correct kernel, and does the one
after that reuse it?
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.outcome import KEPT, REUSED, Outcome
from pytest_ascendcache.faults import FaultPlan, Tree
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest

if TYPE_CHECKING:
    from pytest_ascendcache.observation.cache import CacheUnderTest
    from pytest_ascendcache.observation.run import Run


def interruption(cache: CacheUnderTest, request: CompileRequest) -> Interruption[Run]:
    """A compile of a cache, recorded, and ready to be interrupted."""

    def start(plan: FaultPlan) -> Run:
        return cache.unwatched(replace(request, output=cache.new_output(), plan=plan))

    logs = cache.sandbox / f"record-{cache.new_output().name}"
    return Interruption(cache.root, logs, cache.toolchain.fault_route(), start)


def delivers(run: Run, operator: OperatorSpec, kernel: bytes) -> bool:
    """Whether a run delivered this kernel. One of which no object can be made out is another:
    ``kernel`` itself was found in a delivered file."""
    try:
        return run.kernel(operator) == kernel
    except NotDecidable:
        return False


def recovery(
    cache: CacheUnderTest, *operators: OperatorSpec, environment: Any = None, **options: Any
) -> str | None:
    """What is wrong with the next two runs under enable; ``None`` when the cache has recovered.

    The first must deliver the kernels of fresh compiles, byte by byte; the second must reuse
    them, and is left out where it was seen to, from a directory with the very same contents.
    Evidence of runs that went well is not kept: there are hundreds.
    """
    steps = len(cache.evidence.steps)
    expected = [cache.fresh(each, environment=environment, **options) for each in operators]
    given = {"mode": CacheMode.ENABLE, "environment": environment, **options}
    marks, cache.marks = cache.marks, False
    try:
        first = cache.attempt(*operators, **given)
    finally:
        cache.marks = marks
    if not first.succeeded:
        return f"the next run {first.result.ending}"
    for operator, kernel in zip(operators, expected, strict=True):
        if not delivers(first, operator, kernel):
            return f"the next run delivers a wrong kernel of {operator}"
    content = Tree.read(cache.root).content
    if content in cache.recovered:
        del cache.evidence.steps[steps:]
        return None
    stored = {stem: entry.object for stem, entry in cache.entries(options.get("soc")).items()}
    second = cache.attempt(*operators, **given)
    if not second.succeeded:
        return f"the run after the next {second.result.ending}"
    for operator, kernel in zip(operators, expected, strict=True):
        if second[operator] != Outcome(REUSED, KEPT):
            return f"the run after the next has {operator} {second[operator]}"
        stem = second.stem(operator)
        if stem is None or sha256(stored.get(stem) or b"") != sha256(kernel):
            return f"the run after the next serves a wrong kernel of {operator}"
    cache.recovered.add(content)
    del cache.evidence.steps[steps:]
    return None
