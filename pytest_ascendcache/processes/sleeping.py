"""Telling a process group that hangs from one that works, or is starved, on a busy machine.

A group is asleep while none of its threads, nor of the processes it started, runs, waits for a
processor or a disk, or uses processor time. The kernel reports starved processes as running, so
they are not asleep.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_ascendcache.processes.guard import running_processes
from pytest_ascendcache.processes.launch import Ended, Running, ToolchainError

UNWATCHED = 3.0
"""Seconds in which most runs end, so that nobody has to look whether they work."""

_LOOKS = 1.0
"""Seconds between two looks, at most: who waits for a shorter sleep looks twice in it."""

_DOZING = 2
"""Clock ticks (a hundredth of a second each) a sleeping group may use between two looks: a process
that polls for another one uses less."""


_STARVED = 10.0
"""A process gets at most this many times its patience by the clock."""

_TICKS = os.sysconf("SC_CLK_TCK")
_TOO_BUSY = (
    "a process got too little processor time to end; repeat it on a machine that is less busy."
)


def wait_its_time(
    running: Running,
    patience: float,
    sleep: float = math.inf,
    beside: Sequence[Running] = (),
    unwatched: float = 0.0,
) -> tuple[Ended, float]:
    """Wait as :func:`ends_or_sleeps` does, then kill the command's group. Returns how it ended, and
    the seconds it slept. Nobody looks in the first ``unwatched`` seconds: looking costs more than
    most runs. Raises ``ToolchainError`` if it got too little of a processor to end."""
    slept, starved = 0.0, False
    unwatched = min(unwatched, patience, sleep)
    if not running.ends_within(unwatched):
        slept, starved = _watch(running, sleep, patience - unwatched, beside)
    ended = running.wait(time.monotonic())
    if starved and ended.returncode is None:
        raise ToolchainError(_TOO_BUSY)
    return ended, slept


def ends_or_sleeps(
    running: Running, seconds: float, patience: float, beside: Sequence[Running] = ()
) -> float:
    """Wait until a command ends, sleeps too long, or has had its time. Returns the seconds it
    slept.

    It sleeps too long when it and the commands ``beside`` it sleep for ``seconds`` on end. Its time
    is ``patience`` seconds in which it sleeps or has a processor: on a busy machine it may have
    neither.
    """
    return _watch(running, seconds, patience, beside)[0]


def _watch(
    running: Running, seconds: float, patience: float, beside: Sequence[Running]
) -> tuple[float, bool]:
    """The seconds it slept, and whether it had less than its time."""
    watched = (running, *beside)
    pause = min(_LOOKS, seconds / 2)
    began = since = time.monotonic()
    had = slept = on_end = 0.0
    before = [_look(each) for each in watched]
    while (
        had < patience
        and since - began < _STARVED * patience
        and not running.ends_within(min(pause, patience - had))
    ):
        now = [_look(each) for each in watched]
        passed, since = time.monotonic() - since, time.monotonic()
        used = [max(0, new - old) for (new, _), (old, _) in zip(now, before, strict=True)]
        if any(awake for _, awake in now) or any(ticks > _DOZING for ticks in used):
            on_end = 0.0
            had += min(passed, used[0] / _TICKS) if now[0][1] else passed
        else:
            had, slept, on_end = had + passed, slept + passed, on_end + passed
            if on_end > seconds:
                break
        before = now
    return slept, had < patience and on_end <= seconds


def _look(running: Running) -> tuple[int, bool]:
    """Processor ticks used so far, and whether any thread is runnable."""
    ticks, awake = 0, False
    for process in set() if running.has_ended else _of(running.leader):
        for state, used in _tasks(process):
            ticks += used
            awake = awake or state in (b"R", b"D")
    return ticks, awake


def _of(group: int) -> set[int]:
    """The processes of a group, and those they started in groups of their own."""
    running = list(running_processes())
    processes: set[int] = set()
    more = {each.id for each in running if each.group == group}
    while more:
        processes |= more
        more = {each.id for each in running if each.parent in more} - processes
    return processes


def _tasks(process: int) -> list[tuple[bytes, int]]:
    """State and ticks of each thread; fewer if the process is just ending."""
    tasks: list[tuple[bytes, int]] = []
    try:
        for name in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - as in guard
            fields = (
                Path(f"/proc/{process}/task/{name}/stat").read_bytes().rpartition(b")")[2].split()
            )
            tasks.append((fields[0], int(fields[11]) + int(fields[12])))
    except (OSError, ValueError, IndexError):
        return tasks
    return tasks


_PAUSE = 0.005


def wait_until(happened: Callable[[], bool], seconds: float, pause: float = _PAUSE) -> bool:
    """Check ``happened`` until it returns True, for at most ``seconds``. Return whether it did.
    Nothing notifies of a file created at an unknown depth, so this checks again after each
    ``pause`` (seconds) and leaves the processor to others in between."""
    nothing = select.poll()
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        nothing.poll(pause * 1000)
    return True
