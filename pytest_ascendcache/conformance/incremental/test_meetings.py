"""Who comes to a meeting, drawn: gangs of 2 to 12 cards, and what comes instead of one, or too.

Source: document M, common questions: warm ranks wait for a cold one. A network may run only if
every rank is there at once; ``Attendance`` tells, whatever a rank says. A rank that waits ends.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.incremental.fixtures import (
    NETWORK,
    OverTooSoon,
    Rehearse,
    ended_well,
    ended_without,
    settled,
    wait,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Ending, Fact, Numbers, Subject, SubjectKind
from pytest_ascendcache.contract.ranks import LONGEST_WAIT, SHORTEST_WAIT
from pytest_ascendcache.observation import Address, NetworkUnderTest, meeting_place
from pytest_ascendcache.observation.watched_ranks import Watch, rank_of
from pytest_ascendcache.processes.sleeping import wait_until as look_until
from pytest_ascendcache.toolchains import RankProcess

Expected = bool | int | tuple[Numbers, int]
"""Whether all have to end well, the number of the rank whose absence all have to name, or what is
wrong if all processes of a rank end well."""
Story = Callable[["OwnMeeting", list[int]], Expected]
_SIZES, _FEW = (2, 3, 4, 8, 11, 12), (3, 4, 5)
"""Of gangs. From 11 cards on there are two digits: rank 10 is not rank 1."""
_LISTENS = 2.0
"""Seconds after which ranks that wait for others listen at their address, if they ever do."""
_RESET = struct.pack("ii", 1, 0)
"""``SO_LINGER`` for no time."""
_PROBED = Fact.seen(Ending.FAILURE, "", subject=Subject(SubjectKind.EVENT, "probe"))
_HOSTS = ("127.0.0.2", "127.0.0.1")
"""Addresses of this machine. Nobody takes the first for granted."""


class OwnMeeting:
    """A gang at its address. Single participants come and go."""

    def __init__(
        self, network: NetworkUnderTest, gang: Address, watch: Watch, second: float
    ) -> None:
        self._network, self._gang, self._watch, self._second = network, gang, watch, second
        self._timeout = gang.timeout or LONGEST_WAIT
        self._strangers = ExitStack()
        self._ranks: list[RankProcess] = []
        self._too_soon = False
        self._ended_by_probe = False

    def comes(
        self,
        *ranks: int,
        size: int | None = None,
        timeout: int | None = None,
        elsewhere: bool = False,
    ) -> None:
        """Start these ranks, which believe that there are ``size``. None has kernels in common with
        another one. ``timeout`` is their own, in seconds of waiting; ``elsewhere`` gives them a
        port of their own."""
        for rank in ranks:
            own = {"MS_COMPILER_CACHE_PATH": str(self._network.site / f"host{len(self._ranks)}")}
            if size is not None:
                own["RANK_SIZE"] = str(size)
            if timeout is not None:
                own["HCCL_CONNECT_TIMEOUT"] = str(timeout)
            if elsewhere:
                other = self._strangers.enter_context(meeting_place(self._gang.size))
                own["MS_SCHED_PORT"] = str(other.port)
            request = self._network.request(NETWORK, rank, self._gang, own, second=self._second)
            self._ranks.append(self._watch.start(request))

    def settle(self) -> None:
        """Wait until those that have come wait for others."""
        settled(*self._ranks)

    def all_have_come(self) -> None:
        """Note whether the first still waits when the last does: otherwise nobody could meet."""
        self.settle()
        self._too_soon |= self._ranks[0].running.has_ended

    def leaves(self, rank: int) -> None:
        """Kill a rank."""
        process = next(each for each in self._ranks if rank_of(each.request) == str(rank))
        self._ranks.remove(process)
        process.kill()
        wait(self._watch, process, self._second, self._timeout)

    def stranger(self, says: bytes, stays: bool = True, resets: bool = False) -> None:
        """Something else connects to rank 0, unless its gang meets by other means. It ``stays``, or
        leaves at once in peace or, as probes of load balancers do, with a reset."""

        def connects() -> bool:
            with suppress(OSError):
                place = (self._gang.host, self._gang.port)
                other = self._strangers.enter_context(socket.create_connection(place, 1.0))
                other.sendall(says)
                if resets:
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                if not stays:
                    other.close()
                return True
            self._too_soon |= any(each.running.has_ended for each in self._ranks)
            return self._too_soon

        self.settle()
        waiting = [each for each in self._ranks if not each.running.has_ended]
        if not look_until(connects, _LISTENS):
            self._network.evidence.readings.append("no rank listens at the gang's address")
        if not stays:
            self.settle()
            self._ended_by_probe |= any(each.running.has_ended for each in waiting)

    def end(self, well: Expected) -> None:
        """Wait for all, none of which may wait for ever, and judge them by what is expected."""
        with self._strangers:
            runs = [wait(self._watch, each, self._second, self._timeout) for each in self._ranks]
        if well is True:
            failed = [run for run in runs if not run.succeeded] if self._ended_by_probe else []
            assert not failed, self._network.evidence.found(
                _PROBED, f"a rank {failed[0].result.ending}"
            )
            ended_well(*runs)
        if isinstance(well, tuple):
            observed, rank = well
            alike = [run for run in runs if rank_of(run.result.request) == str(rank)]
            assert not all(run.succeeded for run in alike), self._network.evidence.found(
                observed, f"rank {rank} ends well, {len(alike)} processes in all"
            )
        if self._too_soon:
            raise OverTooSoon
        if isinstance(well, int) and not isinstance(well, bool):
            ended_without(well, *runs)


def _everybody(meeting: OwnMeeting, ranks: list[int]) -> bool:
    meeting.comes(*ranks)
    return True


def _one_missing(meeting: OwnMeeting, ranks: list[int]) -> bool:
    meeting.comes(*ranks[1:])
    meeting.all_have_come()
    return False


def _one_twice(meeting: OwnMeeting, ranks: list[int]) -> bool:
    meeting.comes(*ranks[1:], ranks[-1])
    return False


def _one_twice_beside_all(meeting: OwnMeeting, ranks: list[int]) -> Expected:
    """Rank 0 keeps the meeting place. The last one comes when both are there."""
    twin, *others = sorted(ranks, key=lambda rank: (rank == 0, ranks.index(rank)))
    last = others.pop(0)
    meeting.comes(*others, twin, twin)
    meeting.settle()
    meeting.comes(last)
    return Numbers.RANK_TWICE, twin


def _one_of_a_larger_gang(meeting: OwnMeeting, ranks: list[int]) -> Expected:
    """Its number is that of the one that does not come."""
    lacking = _not_0(ranks)
    meeting.comes(*(each for each in ranks if each != lacking))
    meeting.comes(lacking, size=len(ranks) + 1)
    return Numbers.WITHOUT_A_RANK, lacking


def _not_0(ranks: list[int]) -> int:
    """A rank that does not keep the meeting place."""
    return next(each for each in reversed(ranks) if each)


def _one_beyond(meeting: OwnMeeting, ranks: list[int]) -> bool:
    meeting.comes(*ranks[1:], len(ranks))
    return False


def _one_at_another_port(meeting: OwnMeeting, ranks: list[int]) -> bool:
    """They meet at their address alone."""
    lost = _not_0(ranks)
    meeting.comes(lost, elsewhere=True)
    meeting.comes(*(each for each in ranks if each != lost))
    return False


def _gone_and_back(meeting: OwnMeeting, ranks: list[int]) -> bool:
    gone = _not_0(ranks)  # a rank 0 that is killed may leave its port taken
    meeting.comes(gone)
    meeting.settle()
    meeting.leaves(gone)
    meeting.comes(*ranks)
    return True


def _stranger(says: bytes, instead: bool) -> Story:
    def story(meeting: OwnMeeting, ranks: list[int]) -> bool:
        first, *others = sorted(ranks)
        meeting.comes(first)  # rank 0 listens
        meeting.stranger(says)
        meeting.comes(*(others[:-1] if instead else others))
        if instead:
            meeting.all_have_come()
        return False  # it is in the way

    return story


def _probe(meeting: OwnMeeting, ranks: list[int]) -> bool:
    """It has left before the others come."""
    first, *others = sorted(ranks)
    meeting.comes(first)
    meeting.stranger(b"", stays=False, resets=True)
    meeting.comes(*others)
    return True


_TWICE = "one-twice-beside-all"
_GARBAGE = bytes(range(256)) + b"\n\n"
STORIES: dict[str, Story] = {
    "everybody": _everybody,
    "one-missing": _one_missing,
    "one-twice": _one_twice,
    _TWICE: _one_twice_beside_all,
    "one-of-a-larger-gang": _one_of_a_larger_gang,
    "one-beyond": _one_beyond,
    "one-at-another-port": _one_at_another_port,
    "gone-and-back": _gone_and_back,
    "silent-stranger": _stranger(b"", instead=True),
    "silent-stranger-beside-all": _stranger(b"", instead=False),
    "garbage": _stranger(_GARBAGE, instead=True),
    "garbage-beside-all": _stranger(_GARBAGE, instead=False),
    "probe-with-a-reset": _probe,
}
_COMPLETE = ("everybody", "gone-and-back", "probe-with-a-reset", _TWICE)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("story", [each for each in STORIES if each != _TWICE])
def test_a_network_runs_if_and_only_if_everybody_is_there(
    network: NetworkUnderTest, rehearse: Rehearse, story: str
) -> None:
    _meet(network, rehearse, story)


@rule("ranks/bad-rank-id")
def test_of_two_ranks_of_one_number_one_ends(network: NetworkUnderTest, rehearse: Rehearse) -> None:
    """All others are there. Whether they run is open."""
    _meet(network, rehearse, _TWICE)


def _meet(network: NetworkUnderTest, rehearse: Rehearse, story: str) -> None:
    draw = random.Random(f"{seeded(7)}{story}")
    size = draw.choice(_SIZES)
    ranks, host = draw.sample(range(size), size), _HOSTS[[*STORIES].index(story) % 2]

    def play(second: float) -> None:
        timeout = LONGEST_WAIT if story in _COMPLETE else SHORTEST_WAIT
        with meeting_place(size, timeout, host) as gang, network.watch() as watch:
            meeting = OwnMeeting(network, gang, watch, second)
            meeting.end(well=STORIES[story](meeting, ranks))

    rehearse(play)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("number", range(6))
def test_a_drawn_meeting_ends_as_it_must(
    network: NetworkUnderTest, rehearse: Rehearse, number: int
) -> None:
    """Ranks come in any order. Port scans come and go, which is no reason to end. Then a rank that
    had met the others is killed, or the last one never comes, or all are there."""
    draw = random.Random(f"{seeded(8)}{number}")
    size = draw.choice(_FEW)
    ranks = draw.sample(range(size), size)
    happens = ("complete", "bereft", "short")[number % 3]
    if happens == "bereft" and not ranks[-1]:  # rank 0 keeps the meeting place
        ranks.reverse()
    *first, last = ranks
    drawn = draw.getstate()

    def play(second: float) -> None:
        draw.setstate(drawn)  # the same story each time
        timeout = 5 * SHORTEST_WAIT if happens == "short" else LONGEST_WAIT
        with meeting_place(size, timeout, _HOSTS[number % 2]) as gang, network.watch() as watch:
            meeting = OwnMeeting(network, gang, watch, second)
            for rank in first:
                meeting.comes(rank)
                if draw.random() < 0.5:
                    meeting.settle()
            meeting.settle()
            if 0 in first:
                for _ in range(draw.randrange(3)):
                    meeting.stranger(b"", stays=False, resets=draw.random() < 0.5)
            if happens == "bereft":
                meeting.leaves(_not_0(first))
            if happens == "short":
                meeting.all_have_come()
                meeting.end(well=last)
                return
            meeting.comes(last, timeout=None if happens == "complete" else SHORTEST_WAIT)
            meeting.end(well=happens == "complete")

    rehearse(play)
