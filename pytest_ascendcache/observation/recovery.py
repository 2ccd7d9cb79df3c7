"""The cache that checks get: it can also be interrupted, and asked whether it has recovered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.outcome import KEPT, REUSED, Outcome
from pytest_ascendcache.faults import FaultPlan, Tree
from pytest_ascendcache.observation.cache import WatchedCache
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec


class CacheUnderTest(WatchedCache):
    """An empty cache directory of its own; its compiles are watched and can be interrupted.

    :meth:`compile` says which kernels a run reused and what became of their entries. HOME and
    working directory are the cache's own too. See :class:`WatchedCache` for markers and models.
    """

    def interruption(self, *operators: OperatorSpec, **given: Any) -> Interruption[Run]:
        """A compile (see :meth:`request`) that is recorded now and can then be interrupted.

        Needs ``Capability.FAULT_POINTS``.

        Raises:
            NotDecidable: where it does not succeed undisturbed.
        """
        request = self.request(*operators, **given)

        def start(plan: FaultPlan) -> Run:
            return self.unwatched(replace(request, output=self.new_output(), plan=plan))

        logs = self.sandbox / f"record-{self.new_output().name}"
        return Interruption(self.root, logs, self.toolchain.fault_route(), start)

    def delivers_fresh(self, run: Run, operator: OperatorSpec, **options: Any) -> bool:
        """Whether a run delivered, byte by byte, the kernel of a fresh compile."""
        return _delivers(run, operator, self.fresh(operator, **options))

    def recovery(
        self, *operators: OperatorSpec, environment: Any = None, **options: Any
    ) -> str | None:
        """What is wrong with the next two runs under enable; ``None`` after a recovery.

        The first run must deliver the kernels of fresh compiles, byte by byte. The second must
        reuse them; it is left out where the directory's contents equal those of an earlier
        second run that did. Evidence of runs that went well is not kept: there are hundreds.
        """
        steps = len(self.evidence.steps)
        expected = [self.fresh(each, environment=environment, **options) for each in operators]
        given = {"mode": CacheMode.ENABLE, "environment": environment, **options}
        marks, self.marks = self.marks, False
        try:
            first = self.attempt(*operators, **given)
        finally:
            self.marks = marks
        if not first.succeeded:
            return f"the next run {first.result.ending}"
        for operator, kernel in zip(operators, expected, strict=True):
            if not _delivers(first, operator, kernel):
                return f"the next run delivers a wrong kernel of {operator}"
        content = Tree.read(self.root).content
        if content in self.recovered:
            del self.evidence.steps[steps:]
            return None
        stored = {stem: entry.object for stem, entry in self.entries(options.get("soc")).items()}
        second = self.attempt(*operators, **given)
        if not second.succeeded:
            return f"the run after the next {second.result.ending}"
        for operator, kernel in zip(operators, expected, strict=True):
            try:
                outcome = second[operator]
            except NotDecidable:
                if damaged := self.damaged(operator, options.get("soc")):
                    return f"the next runs leave the entry of {operator} damaged: {damaged}"
                raise
            if outcome != Outcome(REUSED, KEPT):
                return f"the run after the next has {operator} {outcome}"
            stem = second.stem(operator)
            if stem is None or sha256(stored.get(stem) or b"") != sha256(kernel):
                return f"the run after the next serves a wrong kernel of {operator}"
        self.recovered.add(content)
        del self.evidence.steps[steps:]
        return None


def _delivers(run: Run, operator: OperatorSpec, kernel: bytes) -> bool:
    """Whether a run delivered this kernel.

    A delivered file in which no object is found is another kernel: ``kernel`` itself was found.
    """
    try:
        return run.kernel(operator) == kernel
    except NotDecidable:
        return False
