"""Ranks with kernels wait for a rank whose kernels were deleted, and which compiles."""

from __future__ import annotations

import shutil

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import (
    GANG_HANGS,
    ONE,
    WAIT,
    all_right,
    gave_up,
    held_linker,
    last_words,
    named,
    right,
)
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import NetworkUnderTest, launched_gang
from pytest_ascendcache.toolchains import Script


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("seconds", [5, 600], ids=["short-wait", "long-wait"])
def test_ranks_with_kernels_wait_for_one_without(network: NetworkUnderTest, seconds: int) -> None:
    """Each rank has its own directory. The linker of rank 1 is held, too long or not."""
    needs(network.toolchain, Capability.GANG_LAUNCHER)
    cards = [network.site / f"card{rank}" for rank in range(2)]
    script = Script(
        of_rank=tuple(
            (rank, (("MS_COMPILER_CACHE_PATH", str(place)),)) for rank, place in enumerate(cards)
        )
    )
    with launched_gang(network, ONE, 2, script=script) as gang:
        for run in gang.wait(GANG_HANGS):
            right(run, "a cold rank")
    missing = [place.name for place in cards if not list(place.rglob("*.so"))]
    assert not missing, f"a rank keeps nothing in its own directory: {missing[0]}"
    shutil.rmtree(cards[1])
    with held_linker(network) as held:
        environment = {WAIT: str(seconds), **held.environment}
        with launched_gang(network, ONE, 2, environment, script) as gang:
            if seconds > GANG_HANGS:  # otherwise rank 0 may give up before rank 1 gets there
                held.stands(GANG_HANGS)
                gang.settles()  # rank 0 waits by now
                held.gate.release()
            runs = gang.wait(GANG_HANGS)
            if seconds > GANG_HANGS:
                all_right(gang, runs)
                return
    gave_up(runs[0])


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("value", ["abc", "0", "-1"])
def test_an_odd_wait_is_taken_or_named(network: NetworkUnderTest, value: str) -> None:
    """A value other than a number of seconds stands for some time to wait, or an error names it."""
    needs(network.toolchain, Capability.GANG_LAUNCHER)
    with launched_gang(network, ONE, 2, {WAIT: value}) as gang:
        runs = gang.wait(GANG_HANGS)
        if runs[0].returncode != 0:
            how = last_words(runs[0])
            assert any(named(each) for each in runs), (
                f"{WAIT}={value!r}: an error that does not name it: {how}"
            )
            return
        all_right(gang, runs)
