"""What bounded a run: the processors of the machine, its longest check, or how many workers it had.

It is measured from outside while the checks are run, and told at the end, so that who wants the
next run to be shorter knows what would help.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.plugin.estimate import WORTH_SAYING

_BUSY = 0.9
"""The part of their time from which processors or workers are what a run waits for."""

_STAT = Path("/proc/stat")
_IDLE, _WAITING = 3, 4
_GUESTS = 8
"""Fields of its first line: what is idle, what waits for a disk, and where time of guests is
named again."""


class Pace:
    """Notes how long each check took, where, and how busy the machine was meanwhile."""

    def __init__(self) -> None:
        self._busy: defaultdict[str, float] = defaultdict(float)
        self._checks: defaultdict[str, float] = defaultdict(float)
        self._since: tuple[float, tuple[float, float]] | None = None
        self._until: tuple[float, tuple[float, float]] | None = None
        self._workers = 1

    def begin(self, workers: int) -> None:
        """The checks are collected, and run from now on."""
        if self._since is None:
            self._workers = workers
            self._since = time.monotonic(), processors()

    def note(self, report: pytest.TestReport) -> None:
        """One phase of a check, or of a user's own test, has ended."""
        self._busy[getattr(report, "worker_id", "")] += report.duration
        self._checks[report.nodeid] += report.duration

    def end(self) -> None:
        """All of them have ended."""
        self._until = time.monotonic(), processors()

    def document(self) -> dict[str, Any]:
        """What the report says of it: empty where nothing was run.

        ``seconds`` are those of the wall, ``workers_busy`` and ``processors_busy`` parts of them
        from 0 to 1, ``bound`` is what bounded the run."""
        if self._since is None or self._until is None or not self._checks:
            return {}
        seconds = max(self._until[0] - self._since[0], 1e-9)
        ticks, used = (now - then for now, then in zip(self._until[1], self._since[1], strict=True))
        machine = used / ticks if ticks > 0 else 0.0
        workers = sum(self._busy.values()) / self._workers / seconds
        longest, took = max(self._checks.items(), key=lambda each: each[1])
        return {
            "bound": self._bound(machine, workers, took / seconds),
            "seconds": round(seconds, 1),
            "workers": self._workers,
            "workers_busy": round(min(1.0, workers), 3),
            "processors": os.cpu_count() or 1,
            "processors_busy": round(machine, 3),
            "longest": longest,
            "longest_seconds": round(took, 1),
        }

    def _bound(self, machine: float, workers: float, longest: float) -> str:
        if machine >= _BUSY:
            return "processors"
        if self._workers == 1:
            return "workers"
        if longest >= _BUSY:
            return "longest check"
        return "workers" if workers >= _BUSY else "uneven shares"

    def line(self) -> str:
        """What the end of a run says; empty where it was short."""
        found = self.document()
        if not found or found["seconds"] < WORTH_SAYING:
            return ""
        number = found["workers"]
        what = {
            "processors": "the processors of this machine",
            "longest check": "the longest check",
            "workers": f"the number of workers ({number})" if number > 1 else "having one process",
            "uneven shares": "the last checks, for which other workers waited",
        }[found["bound"]]
        name = found["longest"].removeprefix(SUITE_NODES).rpartition("::")[2]
        return (
            f"bounded by {what}: in {found['seconds']:.0f} s workers were busy for "
            f"{found['workers_busy']:.0%}, {found['processors']} processors for "
            f"{found['processors_busy']:.0%}, the longest check took "
            f"{found['longest_seconds']:.0f} s ({name})"
        )


def processors() -> tuple[float, float]:
    """Clock ticks that the processors of the machine had so far, and those they were used;
    nothing where the system does not say."""
    try:
        head = _STAT.read_text(encoding="ascii").partition("\n")[0]
        ticks = [float(each) for each in head.split()[1 : 1 + _GUESTS]]
    except (OSError, ValueError):
        return 0.0, 0.0
    return sum(ticks), sum(ticks) - sum(ticks[_IDLE : _WAITING + 1])
