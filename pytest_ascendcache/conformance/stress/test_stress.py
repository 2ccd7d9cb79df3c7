"""Stress: ranks at random in shared caches. Collected only on request."""

from __future__ import annotations

from pytest_ascendcache.conformance.kit.ranks_at_random import judge
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.stress import Campaign


@rule("robust/stress")
def test_ranks_at_random(cache: CacheUnderTest, ascend_stress: Campaign) -> None:
    judge(cache, ascend_stress)
