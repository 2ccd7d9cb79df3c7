"""When ranks begin to wait for each other, and how long. Source: document M, common questions.

No clock is read, except for the least that a rank waits: ranks of another gang, which wait in vain
for timeouts that are shorter where seconds are shortened, measure time (:func:`_passes`).
"""

from __future__ import annotations

import socket

import pytest

from pytest_ascendcache.conformance.incremental.fixtures import (
    NETWORK,
    OverTooSoon,
    Rehearse,
    ended_well,
    lacking,
    recorded,
    wait,
    wait_until,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Ending
from pytest_ascendcache.contract.ranks import LONGEST_WAIT, SHORTEST_WAIT
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable, Watch, meeting_place
from pytest_ascendcache.toolchains import Toolchain

TIMEOUT = 600
"""``HCCL_CONNECT_TIMEOUT`` of the judged ranks with real waits, in seconds."""


def _longest(second: float, takes: int = TIMEOUT) -> tuple[int, float]:
    """The timeout to judge and the length of its second, so that it takes so many seconds."""
    if second == 1.0:
        return takes, second
    return LONGEST_WAIT, second * takes / LONGEST_WAIT


def _passes(network: NetworkUnderTest, watch: Watch, seconds: int, second: float) -> None:
    """Let ``seconds`` pass: the timeouts of two ranks 1 in turn, whose rank 0 never comes."""
    own = {"MS_COMPILER_CACHE_PATH": str(network.site / "clock")}
    for timeout in (seconds // 2, seconds - seconds // 2):
        with meeting_place(2, timeout) as gang:
            request = network.request(NETWORK, 1, gang, own, second=second)
            run = wait(watch, watch.start(request), second, timeout)
            if not run.result.returncode:
                raise NotDecidable("the ranks that measure time do not end without their rank 0")


@rule("ranks/partial-deletion")
def test_a_visitor_does_not_renew_the_patience_of_a_rank(
    network: NetworkUnderTest, rehearse: Rehearse
) -> None:
    """Rank 0 waits for one that never comes. A port scan, which is no rank, looks in."""

    def story(rehearsed: float) -> None:
        timeout, second = _longest(rehearsed)
        with meeting_place(2, timeout) as gang, network.watch() as watch:
            waiting = watch.start(network.request(NETWORK, 0, gang, second=second))
            wait_until(lambda: not lacking(network.kernels(0).values()))
            _passes(network, watch, timeout * 6 // 10, second)
            if waiting.running.has_ended:
                raise OverTooSoon
            try:
                socket.create_connection((gang.host, gang.port), 1.0).close()
            except ConnectionRefusedError:
                pytest.skip("no rank listens at the gang's address")
            except OSError as error:
                raise NotDecidable(f"the visitor does not reach the gang: {error}") from error
            _passes(network, watch, timeout * 65 // 100, second)
            run = watch.wait(waiting, timeout * second / 10)
        assert run.result.returncode is not None, (
            "rank 0 still waits when one and a quarter of its timeout has passed: a connection "
            "that was no rank has renewed it"
        )

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_waits_as_long_as_it_is_told(
    network: NetworkUnderTest, rehearse: Rehearse, rank: int
) -> None:
    """It still waits after four fifths of its timeout, and the other one comes in time. Rank 1 may
    try again after ever longer pauses: of two timeouts, the last pause lasts to the end of one."""

    def story(rehearsed: float) -> None:
        for takes in (TIMEOUT, TIMEOUT * 3 // 2) if rank else (TIMEOUT,):
            _comes_in_time(network, rank, *_longest(rehearsed, takes))

    rehearse(story)


def _comes_in_time(network: NetworkUnderTest, rank: int, timeout: int, second: float) -> None:
    with meeting_place(2, timeout) as gang, network.watch() as watch:
        requests = [network.request(NETWORK, each, gang, second=second) for each in range(2)]
        waiting = watch.start(requests[rank])
        _passes(network, watch, timeout * 8 // 10, second)
        assert not waiting.running.has_ended, (
            f"rank {rank} gives up when hardly four fifths of its timeout, {timeout} s, have passed"
        )
        late = watch.start(requests[1 - rank])
        ended_well(*(wait(watch, each, second, timeout) for each in (waiting, late)))


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("timeout", [SHORTEST_WAIT, None], ids=["shortest", "default"])
@pytest.mark.parametrize("rank", [0, 1])
def test_no_rank_waits_shorter_than_two_minutes(
    network: NetworkUnderTest, rehearse: Rehearse, rank: int, timeout: int | None
) -> None:
    """It still waits one minute after its process started, which no load can make longer. Clocks of
    ranks cannot tell a unit that is not a second."""

    def story(rehearsed: float) -> None:
        second = 1.0 if rehearsed == 1.0 else 6 * rehearsed
        with meeting_place(2, timeout) as gang, network.watch() as watch:
            waiting = watch.start(network.request(NETWORK, rank, gang, second=second))
            assert not waiting.running.ends_within(SHORTEST_WAIT * second / 2), (
                f"rank {rank} gives up before half of the shortest timeout, {SHORTEST_WAIT} s, "
                "has passed"
            )

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_waits_from_its_arrival_on(
    network: NetworkUnderTest, toolchain: Toolchain, rehearse: Rehearse, late: int
) -> None:
    """One rank computes for longer than its timeout before it comes. The other comes after it, and
    is not late."""

    def story(second: float) -> None:
        with meeting_place(2, TIMEOUT // 2) as gang, network.watch() as watch:
            request = network.request(NETWORK, late, gang, second=second)
            computing = recorded(network, toolchain, request)
            at = next(each for each in computing.holdable if each.act.changes)
            with computing.held(at) as rank:
                _passes(network, watch, TIMEOUT // 2, second)
                rank.release()
                wait_until(lambda: not lacking(network.kernels(late).values()))
                other = watch.start(network.request(NETWORK, 1 - late, gang, second=second))
                ended_well(rank.result(), wait(watch, other, second, TIMEOUT))

    rehearse(story)


@rule("ranks/partial-deletion")
def test_who_gave_up_has_not_come(
    network: NetworkUnderTest, toolchain: Toolchain, rehearse: Rehearse
) -> None:
    """Rank 0 still compiles when rank 1 has waited for its whole timeout and ended."""

    def story(second: float) -> None:
        with meeting_place(2, SHORTEST_WAIT) as gang, network.watch() as watch:
            computing = recorded(
                network, toolchain, network.request(NETWORK, 0, gang, second=second)
            )
            at = next(each for each in computing.holdable if each.act.changes)
            with computing.held(at) as host:
                waits = watch.start(network.request(NETWORK, 1, gang, second=second))
                gave_up = wait(watch, waits, second)
                host.release()
                alone = host.result()
            if not gave_up.result.returncode:
                raise NotDecidable("a rank does not end without rank 0")
            assert alone.result.returncode, network.evidence.found(
                Ending.SUCCESS, "rank 1 gave up waiting, and rank 0 runs the network alone"
            )

    rehearse(story)
