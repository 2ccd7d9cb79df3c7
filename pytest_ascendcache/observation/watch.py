"""Ranks that were started one by one, and what became of the directories meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.observation.evidence import Evidence
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.toolchains import (
    RankProcess,
    Toolchain,
    ToolchainError,
    TrainRequest,
    TrainResult,
)


class Watch:
    """Ranks that were started, from the first to the last.

    ``observed`` makes a run of how a rank ended and of ``site`` before the first was started.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        site: Path,
        evidence: Evidence,
        observed: Callable[[TrainResult, Snapshot], NetworkRun],
    ) -> None:
        self._toolchain = toolchain
        self._evidence = evidence
        self._observed = observed
        self._before = Snapshot.take(site)
        self._running: list[RankProcess] = []
        self._since = 0.0

    def start(self, request: TrainRequest) -> RankProcess:
        """Start one rank; it is waited for with :meth:`wait`."""
        if not self._running:
            self._since = time.monotonic()
        process = self._toolchain.start_rank(request)
        self._evidence.happened(rank_of(request), "start")
        self._running.append(process)
        return process

    def wait(self, process: RankProcess, deadline: float | None = None) -> NetworkRun:
        """Wait for its end; it is killed after ``deadline`` seconds."""
        result = process.wait(deadline, [each for each in self._running if each is not process])
        self._running.remove(process)
        if not self._running:
            self._evidence.waited += time.monotonic() - self._since
        return self._observed(result, self._before)

    def end(self) -> None:
        """Kill every rank that was not waited for."""
        for process in self._running:
            with contextlib.suppress(ToolchainError, OSError, ValueError):
                process.wait(0.0)
        self._running.clear()


def rank_of(request: TrainRequest) -> str:
    """The rank a request is for, as its environment spells it."""
    return request.environment.get("RANK_ID", "") or "0"
