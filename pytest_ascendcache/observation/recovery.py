"""Whether a cache recovers from an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_ascendcache.caches import entries_in_place
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery, Ending, Fact, outcome_fact
from pytest_ascendcache.contract.outcome import KEPT, REUSED, REWRITTEN, Outcome
from pytest_ascendcache.faults import Tree
from pytest_ascendcache.observation.compiling import WatchedCompiles
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.fresh import FreshCompiles
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.invariants import takes_own_notes
from pytest_ascendcache.observation.known_entries import problems_of
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec


class Recovery:
    """Interrupts compiles in one cache, and looks at the runs that follow. ``seen`` are contents
    from which a second run was seen to reuse correct kernels."""

    def __init__(self, cache: WatchedCompiles, fresh: FreshCompiles) -> None:
        self._cache = cache
        self._fresh = fresh
        self.seen: set[frozenset[object]] = set()

    def interruption(
        self, operators: tuple[OperatorSpec, ...], options: Mapping[str, Any]
    ) -> Interruption[Run]:
        """Record a compile now, so that it can be interrupted later."""
        cache = self._cache
        request = cache.request(*operators, **options)
        logs = cache.sandbox / f"record-{cache.new_output().name}"
        return Interruption(
            cache.root,
            logs,
            cache.toolchain.fault_route(),
            lambda plan: cache.unwatched(replace(request, output=cache.new_output(), plan=plan)),
            takes_own_notes(cache.toolchain.health.made, cache.root),
        )

    def problem(
        self, operators: tuple[OperatorSpec, ...], options: Mapping[str, Any]
    ) -> Fact | None:
        """What is wrong with the next two runs under enable, or None."""
        cache = self._cache
        steps = len(cache.evidence.steps)
        expected = {each: self._fresh.kernel(each, **options) for each in operators}
        request = {**options, "mode": CacheMode.ENABLE}
        marks, cache.markers.on = cache.markers.on, False
        try:
            first = cache.attempt(*operators, **request)
        finally:
            cache.markers.on = marks
        if not first.succeeded:
            return Fact.seen(Ending.FAILURE, f"the next run {first.result.ending}")
        for operator in operators:
            if not self._fresh.is_fresh(first, operator, **options):
                wrong = f"the next run delivers a wrong kernel of {operator}"
                return Fact.seen(Delivery.ANOTHER, wrong, operator)
        content = Tree.read(cache.root).content
        if content not in self.seen:
            chip = options.get("soc") or cache.options.soc
            stored = entries_in_place(cache.layout.soc(chip))
            objects = {stem: entry.object_bytes for stem, entry in stored.items()}
            second = cache.attempt(*operators, **request)
            if problem := self._problem_of_second(second, expected, objects, chip):
                return problem
            self.seen.add(content)
        del cache.evidence.steps[steps:]
        return None

    def _problem_of_second(
        self,
        second: Run,
        expected: Mapping[OperatorSpec, bytes],
        stored: Mapping[str, bytes | None],
        chip: str,
    ) -> Fact | None:
        """What is wrong with a run that finds every kernel cached."""
        if not second.succeeded:
            return Fact.seen(Ending.FAILURE, f"the run after the next {second.result.ending}")
        for operator, kernel in expected.items():
            try:
                outcome = second[operator]
            except NotDecidable:
                self._cache.needs_readable_entries()
                kind = operator.type.lower()
                damaged = next(problems_of(self._cache.layout, chip, kind), None)
                if damaged is not None:
                    left = f"the next runs leave the entry of {operator} damaged: {damaged[1]}"
                    return outcome_fact(KEPT, [REWRITTEN], operator, detail=left)
                raise
            if outcome != Outcome(REUSED, KEPT):
                again = f"the run after the next has {operator} {outcome}"
                return outcome_fact(outcome, [Outcome(REUSED, KEPT)], operator, detail=again)
            stem = second.stem(operator)
            if stem is None or sha256(stored.get(stem) or b"") != sha256(kernel):
                wrong = f"the run after the next serves a wrong kernel of {operator}"
                return Fact.seen(Delivery.ANOTHER, wrong, operator)
        return None
