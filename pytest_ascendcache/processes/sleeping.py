"""Telling a process group that waits for ever from one that works, or wants to, on a busy machine.

A group is asleep as long as no thread of it, or of what it started, runs, or waits for a processor
or a disk, and none uses processor time. Starved processes are none of that: the kernel calls them
running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.processes.guard import running_processes
from pytest_ascendcache.processes.launch import Running

_LOOKS = 1.0
"""Seconds between two looks."""

_DOZING = 2
"""Ticks of processor time (a hundredth of a second each) in one look that are still sleep: a
process that looks for something once a second uses less."""


_STARVED = 10.0
"""By the clock a process is waited for at most so many times its patience."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Look:
    """Processor time so far, in ticks, and whether a thread wants to go on."""

    ticks: int
    awake: bool


def ends_or_sleeps(
    running: Running, seconds: float, patience: float, beside: Sequence[Running] = ()
) -> float:
    """Come back when a command ended, when it and those it runs ``beside`` slept for ``seconds``,
    or when it has had ``patience`` seconds: asleep or on a processor, for on a busy machine it
    may be neither. Returns for how many seconds they slept."""
    given = (running, *beside)
    began = since = time.monotonic()
    had = slept = in_one = 0.0
    before = [_look(each) for each in given]
    while (
        had < patience
        and since - began < _STARVED * patience
        and not running.ends_within(min(_LOOKS, patience - had))
    ):
        now = [_look(each) for each in given]
        passed, since = time.monotonic() - since, time.monotonic()
        used = [max(0, new.ticks - old.ticks) for new, old in zip(now, before, strict=True)]
        if any(each.awake for each in now) or any(ticks > _DOZING for ticks in used):
            in_one = 0.0
            had += min(passed, used[0] / _TICKS) if now[0].awake else passed
        else:
            had, slept, in_one = had + passed, slept + passed, in_one + passed
            if in_one > seconds:
                break
        before = now
    return slept


def _look(running: Running) -> _Look:
    ticks, awake = 0, False
    for process in set() if running.has_ended else _of(running.leader):
        for task in _tasks(process):
            state, used = task
            ticks += used
            awake = awake or state in (b"R", b"D")
    return _Look(ticks, awake)


def _of(group: int) -> set[int]:
    """The processes of a group, and what they started in groups of their own."""
    running = list(running_processes())
    found: set[int] = set()
    more = {each.id for each in running if each.group == group}
    while more:
        found |= more
        more = {each.id for each in running if each.parent in more} - found
    return found


def _tasks(process: int) -> list[tuple[bytes, int]]:
    """State and ticks of each thread; none where the process has just ended."""
    found = []
    try:
        for name in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - as in guard
            fields = (
                Path(f"/proc/{process}/task/{name}/stat").read_bytes().rpartition(b")")[2].split()
            )
            found.append((fields[0], int(fields[11]) + int(fields[12])))
    except (OSError, ValueError, IndexError):
        return found
    return found
