"""Stress: ranks at random in shared caches. Collected only on request."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.stress import Campaign, Undecided


@rule("robust/stress")
def test_ranks_at_random(cache: CacheUnderTest, ascend_stress: Campaign) -> None:
    judge(cache, ascend_stress)


def judge(cache: CacheUnderTest, campaign: Campaign) -> None:
    """Carry out a stress run, and fail with its first violation."""
    try:
        result = campaign.run()
    except Undecided as reason:
        raise NotDecidable(f"{reason}; the history is {campaign.history}") from None
    notes = cache.evidence.notes
    notes += [result.summary, *result.remarks, f"history: {result.path}"]
    cache.evidence.facts += result.facts
    if result.violations:
        # The message is the reason for the verdict; the notes tell the story of the run.
        notes += result.story
        number, steps, first = len(result.violations), result.done.steps, result.violations[0]
        if number == 1:
            pytest.fail(f"1 violation, in a run of {steps} steps: {first}")
        pytest.fail(f"{number} violations in a run of {steps} steps, the first: {first}")
