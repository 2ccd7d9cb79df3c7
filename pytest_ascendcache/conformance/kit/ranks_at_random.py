"""What a stress run is judged by, on one machine as on several nodes."""

from __future__ import annotations

import pytest

from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.stress import Campaign, Undecided


def judge(cache: CacheUnderTest, campaign: Campaign) -> None:
    """Carry a stress run out, and fail with its first violation and its story."""
    try:
        result = campaign.run()
    except Undecided as reason:
        raise NotDecidable(f"{reason}; the history is {campaign.history}") from None
    notes = cache.evidence.notes
    notes += [result.summary, *result.remarks, f"history: {result.path}"]
    for each in result.sightings:
        cache.evidence.saw(each.harm, each.what)
    if result.violations:
        # A message is the reason for the verdict; the story is told once, as notes.
        notes += result.story
        number, steps = len(result.violations), result.history.steps
        if number == 1:
            pytest.fail(f"1 violation, in a run of {steps} steps: {result.violations[0]}")
        pytest.fail(
            f"{number} violations in a run of {steps} steps, the first: {result.violations[0]}"
        )
