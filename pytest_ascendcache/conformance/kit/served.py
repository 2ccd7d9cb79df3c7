"""What checks of served kernels take for granted: that kernels are served."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ascendcache.conformance.kit.vocabulary import HIT
from pytest_ascendcache.contract.facts import outcome_fact
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec


def needs_served(cache: CacheUnderTest, run: Run, operators: Iterable[OperatorSpec]) -> None:
    """To be called before a check of served kernels passes: what is not reused breaks the rule that
    promises it. Raises NotDecidable then, and where markers show nothing."""
    if not cache.marks:
        raise NotDecidable(f"marked entries are not served: {cache.control.reason}")
    missed = [each for each in operators if run[each] != HIT]
    for each in missed:
        fact = outcome_fact(run[each], [HIT], each, run=len(cache.evidence.steps))
        cache.evidence.saw_besides("cache-mode/enable-reuses", fact)
    if missed:
        raise NotDecidable(f"{len(missed)} operators are not served, among them {missed[0]}")
