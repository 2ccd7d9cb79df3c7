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
    for each in result.sightings:
        cache.evidence.saw(each.harm, each.what)
    if result.violations:
        # A message is the reason for the verdict; the story is told once, as notes.
        cache.evidence.notes += result.story
        number, steps = len(result.violations), result.history.steps
        if number == 1:
            pytest.fail(f"1 violation, in a run of {steps} steps: {result.violations[0]}")
        pytest.fail(
            f"{number} violations in a run of {steps} steps, the first: {result.violations[0]}"
        )
