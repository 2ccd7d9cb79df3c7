"""Ranks that were started one by one, and what became of the directories meanwhile."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.toolchains import RankProcess, ToolchainError, TrainRequest

if TYPE_CHECKING:
    from pytest_ascendcache.observation.network import NetworkUnderTest


class Watch:
    """Ranks that were started, from the first to the last."""

    def __init__(self, networks: NetworkUnderTest) -> None:
        self._networks = networks
        self._before = Snapshot.take(networks.site)
        self._running: list[RankProcess] = []
        self._since = 0.0

    def start(self, request: TrainRequest) -> RankProcess:
        """Start one rank; it is waited for with :meth:`wait`."""
        if not self._running:
            self._since = time.monotonic()
        process = self._networks.toolchain.start_rank(request)
        self._networks.evidence.happened(rank_of(request), "start")
        self._running.append(process)
        return process

    def wait(self, process: RankProcess, deadline: float | None = None) -> NetworkRun:
        """Wait for its end; it is killed after ``deadline`` seconds."""
        result = process.wait(deadline)
        self._running.remove(process)
        if not self._running:
            self._networks.evidence.waited += time.monotonic() - self._since
        return self._networks.observed(result, self._before)

    def end(self) -> None:
        """Kill whoever was not waited for."""
        for process in self._running:
            with contextlib.suppress(ToolchainError, OSError, ValueError):
                process.wait(0.0)
        self._running.clear()


def rank_of(request: TrainRequest) -> str:
    """The rank a request is for, as its environment spells it."""
    return request.environment.get("RANK_ID", "") or "0"
