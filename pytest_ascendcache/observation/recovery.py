"""Interrupting compiles of a cache under test, and asking whether it has recovered.

The question is always the same: does the next run deliver a correct kernel, and does the one
after that reuse it?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.cachedir.entry import sha256
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.outcome import KEPT, REUSED, Outcome
from pytest_ascendcache.faults import FaultPlan
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest, CompileResult

if TYPE_CHECKING:
    from pytest_ascendcache.observation.cache import CacheUnderTest


_SHOWN_OUTPUT = 2000


@dataclass(frozen=True)
class PlannedCompile:
    """Starts one compile of a cache, again and again, each time under another plan."""

    cache: CacheUnderTest
    request: CompileRequest

    def __call__(self, plan: FaultPlan) -> CompileResult:
        """Run it to its end, without marks or snapshots: they would be in the way."""
        request = replace(self.request, output=self.cache.new_output(), plan=plan)
        (result,) = self.cache.toolchain.compile_together([request])
        evidence = self.cache.evidence
        evidence.starts += 1
        evidence.compiles += len(request.operators)
        said = "" if result.succeeded else result.output[-_SHOWN_OUTPUT:]
        evidence.steps.append(Step(result.command, result.ending, (str(plan),), {}, said))
        return result


def interruption(cache: CacheUnderTest, request: CompileRequest) -> Interruption[CompileResult]:
    """A compile of a cache, recorded, and ready to be interrupted."""
    return Interruption(
        cache.root,
        cache.sandbox / f"record-{cache.new_output().name}",
        cache.toolchain.fault_route(),
        PlannedCompile(cache, request),
    )


def recovery(
    cache: CacheUnderTest, *operators: OperatorSpec, environment: Any = None, **options: Any
) -> str | None:
    """What is wrong with the next two runs under enable; ``None`` when the cache has recovered.

    The first must deliver the kernels of fresh compiles, byte by byte; the second must reuse
    them. Evidence of runs that went well is not kept: there are hundreds.
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
        if first.kernel(operator) != kernel:
            return f"the next run delivers a wrong kernel of {operator}"
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
    del cache.evidence.steps[steps:]
    return None
