"""What limited the speed of a run: the processors, the longest check, or the number of workers.

It is measured while the checks run, and printed at the end for users who want a shorter run.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES

_BUSY = 0.9
"""The share of its time from which a processor or worker counts as busy throughout."""

WORTH_SAYING = 30.0
"""Seconds of a run from which its pace is worth a line."""

_STAT = Path("/proc/stat")
_IDLE, _WAITING, _GUESTS = 3, 4, 8
"""Fields of its first line: idle, waiting for a disk, and the first that repeats guests' time."""


class Pace:
    """Measures how long each check took on which worker, and how busy the machine was.

    The collector calls ``begin`` after collection, ``note`` for each report, ``end`` at the end.
    """

    def __init__(self) -> None:
        self._busy: defaultdict[str, float] = defaultdict(float)
        self._checks: defaultdict[str, float] = defaultdict(float)
        self._since: tuple[float, tuple[float, float]] | None = None
        self._until: tuple[float, tuple[float, float]] | None = None
        self._workers = 1

    def begin(self, workers: int) -> None:
        """Start to measure: the checks are collected, and the first is about to run."""
        if self._since is None:
            self._workers = workers
            self._since = time.monotonic(), processors()

    def note(self, report: pytest.TestReport) -> None:
        """Count one finished phase of a check or of a user's own test."""
        self._busy[getattr(report, "worker_id", "")] += report.duration
        self._checks[report.nodeid] += report.duration

    def end(self) -> None:
        """Stop to measure: the last test has ended."""
        self._until = time.monotonic(), processors()

    def document(self) -> dict[str, Any]:
        """The measurements as plain data for the report; empty if nothing was run.

        ``seconds`` are wall-clock time, ``workers_busy`` and ``processors_busy`` shares of it from
        0 to 1, and ``bound`` is what limited the run.
        """
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
        """The line at the end of a run; empty after a short run."""
        pace = self.document()
        if not pace or pace["seconds"] < WORTH_SAYING:
            return ""
        number = pace["workers"]
        what = {
            "processors": "the processors of this machine",
            "longest check": "the longest check",
            "workers": f"the number of workers ({number})" if number > 1 else "its single process",
            "uneven shares": "the last checks, while other workers were idle",
        }[pace["bound"]]
        name = pace["longest"].removeprefix(SUITE_NODES).rpartition("::")[2]
        return (
            f"limited by {what}: in {pace['seconds']:.0f} s workers were busy for "
            f"{pace['workers_busy']:.0%}, {pace['processors']} processors for "
            f"{pace['processors_busy']:.0%}; the longest check took "
            f"{pace['longest_seconds']:.0f} s ({name})"
        )


def processors() -> tuple[float, float]:
    """Clock ticks of all processors since boot, and how many were used; zeros if unknown."""
    try:
        head = _STAT.read_text(encoding="ascii").partition("\n")[0]
        ticks = [float(each) for each in head.split()[1 : 1 + _GUESTS]]
    except (OSError, ValueError):
        return 0.0, 0.0
    return sum(ticks), sum(ticks) - sum(ticks[_IDLE : _WAITING + 1])
