"""Stress: ranks at random, and one rank against the contract. Collected only if asked for."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.stress import Campaign, Undecided


@rule("robust/stress")
def test_ranks_at_random(cache: CacheUnderTest, ascend_stress: Campaign) -> None:
    try:
        result = ascend_stress.run()
    except Undecided as reason:
        raise NotDecidable(f"{reason}; the history is {ascend_stress.history}") from None
    cache.evidence.notes += [result.summary, f"history: {result.path}"]
    if result.violations:
        pytest.fail(result.story)


@rule("robust/stress")
def test_one_rank_keeps_to_the_contract(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...], ascend_stress: Campaign
) -> None:
    if ascend_stress.replay is not None:
        pytest.skip("a history of ranks is carried out again")
    pytest.importorskip(
        "hypothesis", reason="hypothesis is not installed: pip install pytest-ascendcache[stateful]"
    )
    from pytest_ascendcache.stress.stateful import find_program

    if program := find_program(cache, probes[:3], ascend_stress.seed):
        pytest.fail(program)
