"""Stress: ranks at random. Collected only if asked for."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.stress import Campaign, Undecided


@rule("robust/stress")
def test_ranks_at_random(cache: CacheUnderTest, ascend_stress: Campaign) -> None:
    try:
        result = ascend_stress.run()
    except Undecided as reason:
        raise NotDecidable(f"{reason}; the history is {ascend_stress.history}") from None
    cache.evidence.notes += [result.summary, f"history: {result.path}"]
    if result.violations:
        # The end of a run shows the first line of a message, and every note.
        cache.evidence.notes += result.story
        pytest.fail("\n".join((f"{len(result.violations)} violations", *result.story)))
