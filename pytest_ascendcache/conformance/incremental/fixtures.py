"""For checks of several ranks: stories in which a timeout passes, and how ranks end."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

import pytest

from pytest_ascendcache.caches import RankKernel
from pytest_ascendcache.conformance.kit.vocabulary import needs, needs_meeting
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Aspect, Ending
from pytest_ascendcache.contract.ranks import SHORTEST_WAIT
from pytest_ascendcache.faults import Action, FaultPlan
from pytest_ascendcache.observation import (
    Address,
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    Watch,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.processes.sleeping import ends_or_sleeps
from pytest_ascendcache.processes.sleeping import wait_until as look_until
from pytest_ascendcache.ranks import Rank
from pytest_ascendcache.toolchains import RankProcess, Toolchain, TrainRequest

__all__ = ["rehearse"]

NETWORK = probe_network("Square", "Exp")
EVERYTHING = frozenset({"square", "exp"})
Story = Callable[[float], None]
"""A check in which a timeout passes; its argument is the length of a second of waiting."""
Rehearse = Callable[[Story], None]
_SETTLED, _UNSETTLED = 0.2, 10.0
"""Seconds of sleep after which ranks count as waiting, and seconds to reach it."""
_REHEARSED, _LAST = (1 / 400, 1 / 100), 1 / 40
"""Real seconds of a second of waiting: at first, and where a story needs longer."""


def _last(second: float, story: Story) -> None:
    """Play a story that is not played again: ranks that end early did so by their own decision."""
    with suppress(OverTooSoon):
        story(second)


class OverTooSoon(Exception):
    """A rank had ended before all others had come, so that a story shows little."""


HANGS, _LATER, DEFAULT_WAIT = 20.0, 60, 600
"""Real seconds after its timeout at which a rank that is still running counts as hung, with so many
seconds of waiting more: CANN may wait for 20 longer than it is told. And the timeout that newer
MindSpore sets. Source: facts ``mindspore-incremental`` section 1.8."""


def wait(
    watch: Watch, process: RankProcess, second: float, timeout: int | None = SHORTEST_WAIT
) -> NetworkRun:
    """Wait for a rank to end. ``timeout`` is the rank's own timeout, in seconds of waiting, or None
    for the default; of ranks that have all come, the shortest one."""
    run = watch.wait(process, HANGS + ((timeout or DEFAULT_WAIT) + _LATER) * second)
    if run.result.returncode is None:
        rank = run.result.request.environment["RANK_ID"]
        told = run.output.strip()[-300:]
        message = f"rank {rank} waits for ever" + (f": {told}" if told else "")
        raise AssertionError(watch.evidence.found(Ending.NO_END, message))
    return run


def ended_well(*runs: NetworkRun) -> None:
    """Assert that every rank ended well, with the right outputs."""
    for run in runs:
        rank = run.result.request.environment.get("RANK_ID")
        assert run.succeeded, f"rank {rank} {run.result.ending}: {run.output.strip()[-300:]}"
        assert run.wrong == {}, f"rank {rank} gives wrong outputs"


_MENTION = re.compile(
    r"ranks?(?:[ _]ids?)?[^\w\n]{0,3}((?:\d+[^\w\n]{0,3}(?:(?:and|to|和|至)[^\w\n]{0,3})?)+)",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d+)(?:\s*(?:-|to|至)\s*(\d+))?", re.IGNORECASE)


def named(run: NetworkRun, missing: set[int], gone: Collection[int] = ()) -> set[int]:
    """The ranks among the missing ones that errors name: numbers after the word rank, or a range of
    them, in any punctuation. A line that names others than these, its own one and those that are
    ``gone`` tells something else, for example who has come."""
    beside = {int(run.result.request.environment["RANK_ID"]), *gone}
    found: set[int] = set()
    for line in run.output.splitlines():
        ranks = set[int]()
        for first, last in _RANGE.findall(", ".join(_MENTION.findall(line))):
            low, high = int(first), int(last or first)
            ranks |= {low, high, *(each for each in missing if low < each < high)}
        found |= ranks - beside if ranks - beside <= missing else set()
    return found


def ended_without(missing: int, *runs: NetworkRun) -> None:
    """Assert that ranks ended with an error that names the missing rank: each of them rank 0, for
    which all wait, and one of them another rank, of which the others need not know."""
    told = list[set[int]]()
    for run in runs:
        own = run.result.request.environment["RANK_ID"]
        assert run.result.returncode, f"rank {own} {run.result.ending} without rank {missing}"
        assert run.result.returncode > 0, f"rank {own} {run.result.ending}"
        assert run.result.left_behind == 0, "a rank left processes behind"
        told.append(named(run, {missing}))
    errors = "\n".join(run.output.strip() for run in runs)
    is_named = any(told) if missing else all(told)
    assert is_named, f"rank {missing} is missing: {errors}"


def lacking(kernels: Iterable[RankKernel]) -> set[str]:
    """Operators of the network without a valid kernel among these, which may have others, too."""
    valid = [kernel for kernel in kernels if kernel.is_valid]
    return {each for each in EVERYTHING if not any(kernel.is_of(each) for kernel in valid)}


def settled(*processes: RankProcess) -> None:
    """Wait until all of these sleep because they wait for another rank, or the first has ended."""
    first, *others = (each.running for each in processes)
    ends_or_sleeps(first, _SETTLED, _UNSETTLED, others)


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for something that shows in files. Undecided if it does not happen in time."""
    if not look_until(happened, HANGS):
        raise NotDecidable(f"a rank has not published its kernels within {HANGS:g} s")


@contextmanager
def address_of(rank: Rank) -> Iterator[Address]:
    """The address at which the gang of a test meets. Rank 0 reserves it until all are done."""
    hosts = rank.gather(socket.gethostname())
    host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
    with (
        meeting_place(rank.size, None, host, elsewhere=True)
        if rank.rank == 0
        else nullcontext() as own
    ):
        port = rank.gather(own.port if own else None)[0]
        yield Address(rank.size, port, None, host)
        rank.barrier()


def recorded(
    network: NetworkUnderTest, toolchain: Toolchain, request: TrainRequest
) -> Interruption[NetworkRun]:
    """A rank of a gang, ready to be held. The recording is of the same rank without a gang."""
    needs(toolchain, Action.HOLD)
    alone = replace(network.request(NETWORK, 0), second=request.second)
    planned = [alone]

    def start(plan: FaultPlan) -> NetworkRun:
        return network.attempt(replace(planned[-1], plan=plan))

    logs, route = network.new_directory() / "record", toolchain.fault_route()
    interruption = Interruption(network.cache, logs, route, start)
    interruption.reset()
    planned.append(request)
    return interruption


@pytest.fixture
def rehearse(
    request: pytest.FixtureRequest, toolchain: Toolchain, network: NetworkUnderTest
) -> Rehearse:
    """Plays a story, with the real length of one second of waiting as its argument.

    One that fails, or was over before all had come, is played again with longer seconds, in other
    directories: on a busy machine, ranks may come late. A wrong result is final.
    """
    needs_meeting(toolchain)
    if request.getfixturevalue("ascend_session").settings.real_waits:
        return partial(_last, 1.0)
    needs(toolchain, Capability.REHEARSED_WAITS)

    def play(story: Story) -> None:
        facts = network.evidence.facts
        before = len(facts)
        for second in _REHEARSED:
            try:
                story(second)
                return
            except OverTooSoon:
                continue
            except AssertionError:
                if any(fact.aspect is Aspect.NUMBERS for fact in facts[before:]):
                    raise
                del facts[before:]
                network.cache = network.site / "second-cache"
                break
        _last(_LAST, story)

    return play
