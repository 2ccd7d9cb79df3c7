"""From when, and how long, ranks wait for each other. Source: document M, common questions.

No clock is looked at. A rank of another gang that waits in vain, with a timeout of its own, is the
measure of how much time has passed: see :func:`_passes`. Ranks have the longest timeout there is
where waits are rehearsed, and the measure is made of shorter ones, so that a timeout that is not
waited for in full is told from one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_ascendcache.conformance.kit.gangs import (
    NETWORK,
    Story,
    ended_well,
    ended_without,
    published,
    wait,
    wait_until,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.ranks import LONGEST_WAIT
from pytest_ascendcache.faults import Action, FaultPlan
from pytest_ascendcache.observation import (
    NetworkRun,
    NetworkUnderTest,
    Watch,
    meeting_place,
)
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.toolchains import Toolchain, ToolchainError, TrainRequest

TIMEOUT = 600
"""``HCCL_CONNECT_TIMEOUT`` of the ranks that are judged, where their waits are real."""


def _longest(second: float) -> tuple[int, float]:
    """The timeout to judge, and how long a second of it lasts: as long in all as a short one."""
    if second == 1.0:
        return TIMEOUT, second
    return LONGEST_WAIT, second * TIMEOUT / LONGEST_WAIT


def _passes(network: NetworkUnderTest, watch: Watch, seconds: int, second: float) -> None:
    """Let time pass: twice the timeout of a rank 1 whose rank 0 never comes."""
    own = {"MS_COMPILER_CACHE_PATH": str(network.site / "clock")}
    for timeout in (seconds // 2, seconds - seconds // 2):
        with meeting_place(2, timeout) as gang:
            request = network.request(NETWORK, 1, gang, own, second=second)
            ended_without(wait(watch, watch.start(request), second, timeout), 0)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("first", [0, 1])
def test_an_arrival_does_not_renew_the_patience_of_others(
    network: NetworkUnderTest, rehearse: Callable[[Story], None], first: int
) -> None:
    """Of three ranks one waits, another comes later, the last one never: the first one ends when
    its own timeout has passed."""

    def story(told: float) -> None:
        timeout, second = _longest(told)
        with meeting_place(3, timeout) as gang, network.watch() as watch:
            requests = [network.request(NETWORK, rank, gang, second=second) for rank in range(2)]
            waiting = watch.start(requests[first])
            wait_until(lambda: len(published(network, first)) == 2)
            _passes(network, watch, timeout * 6 // 10, second)
            watch.start(requests[1 - first])
            wait_until(lambda: len(published(network, 1 - first)) == 2)
            _passes(network, watch, timeout * 65 // 100, second)
            run = watch.wait(waiting, timeout * second / 10)
        assert run.result.returncode is not None, (
            f"rank {first} still waits when one and a quarter of its timeout has passed: the "
            f"arrival of rank {1 - first} has renewed it"
        )
        ended_without(run, 2)

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_waits_as_long_as_it_is_told(
    network: NetworkUnderTest, rehearse: Callable[[Story], None], rank: int
) -> None:
    """It waits in vain, and has not given up when four fifths of its timeout have passed."""

    def story(told: float) -> None:
        timeout, second = _longest(told)
        with meeting_place(2, timeout) as gang, network.watch() as watch:
            waiting = watch.start(network.request(NETWORK, rank, gang, second=second))
            _passes(network, watch, timeout * 8 // 10, second)
            run = watch.wait(waiting, 0.0)
        assert run.result.returncode is None, (
            f"rank {rank} gives up when hardly four fifths of its timeout, {timeout} s, have passed"
        )

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_waits_from_its_arrival_on(
    network: NetworkUnderTest, toolchain: Toolchain, rehearse: Callable[[Story], None], late: int
) -> None:
    """One rank computes for longer than its timeout before it comes; the other comes after it,
    and is not late."""

    def story(second: float) -> None:
        with meeting_place(2, TIMEOUT // 2) as gang, network.watch() as watch:
            request = network.request(NETWORK, late, gang, second=second)
            computing = _recorded(network, toolchain, request)
            at = next(each for each in computing.holdable if each.act.changes)
            with computing.held(at) as rank:
                _passes(network, watch, TIMEOUT // 2, second)
                rank.release()
                wait_until(lambda: len(published(network, late)) == 2)
                other = watch.start(network.request(NETWORK, 1 - late, gang, second=second))
                ended_well(rank.result(), wait(watch, other, second, TIMEOUT))

    rehearse(story)


def _recorded(
    network: NetworkUnderTest, toolchain: Toolchain, request: TrainRequest
) -> Interruption[NetworkRun]:
    """A rank of a gang that can be held. Recorded is the same rank on its own, elsewhere."""
    try:
        route = toolchain.fault_route()
    except ToolchainError as error:
        pytest.skip(str(error))
    if Action.HOLD not in route.actions:
        pytest.skip(f"{toolchain.name}: no rank can be held while it computes")
    alone = replace(network.request(NETWORK, 0), second=request.second)
    planned = [alone]

    def start(plan: FaultPlan) -> NetworkRun:
        return network.attempt(replace(planned[-1], plan=plan))

    made = Interruption(network.cache, network.new_directory() / "record", route, start)
    made.reset()
    planned.append(request)
    return made
