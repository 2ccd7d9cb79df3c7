"""Telling a process group that waits for ever from one that works, or wants to, on a busy machine.

A group is asleep as long as no thread of it, or of what it started, runs, or waits for a processor
or a disk, and none uses processor time. Starved processes are none of that: the kernel calls them
running.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.processes.guard import running_processes
from pytest_ascendcache.processes.launch import Running

_LOOKS = 1.0
"""Seconds between two looks."""

_DOZING = 2
"""Ticks of processor time (a hundredth of a second each) in one look that are still sleep: a
process that looks for something once a second uses less."""


@dataclass(frozen=True)
class _Look:
    """Processor time so far, in ticks, and whether a thread wants to go on."""

    ticks: int
    awake: bool


def ends_or_sleeps(running: Running, seconds: float, until: float) -> None:
    """Come back when a command ended, its group slept for ``seconds``, or at ``until``
    (``time.monotonic``)."""
    slept_since, before = time.monotonic(), _look(running.leader)
    while time.monotonic() < until and not running.ends_within(_LOOKS):
        now = _look(running.leader)
        if now.awake or abs(now.ticks - before.ticks) > _DOZING:
            slept_since = time.monotonic()
        elif time.monotonic() - slept_since > seconds:
            return
        before = now


def _look(group: int) -> _Look:
    ticks, awake = 0, False
    for process in _of(group):
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
