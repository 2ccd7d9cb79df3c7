"""Gangs started by a toolchain's own launcher (``Capability.GANG_LAUNCHER``), which starts every
rank with one command."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_ascendcache.observation.gate import GatedProcess
from pytest_ascendcache.observation.gated_run import GatedRun, look
from pytest_ascendcache.observation.meeting_place import meeting_place
from pytest_ascendcache.observation.network import NetworkUnderTest
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import Script, TrainResult

_RANK = re.compile(r"(?i)(?<![/\w])(?:rank|worker|node)(?:[ _-]?id)?[ :=\[]*(\d+)\b")
_ERROR = re.compile(r"(?i)error|fail|timed out|abnormal|exit|killed|lost|died")
_NO_ERROR = re.compile(r"\[(?:WARNING|INFO|DEBUG)\]")


@dataclass
class LaunchedGang:
    """A running gang; :meth:`wait` tells how its ranks ended."""

    networks: NetworkUnderTest
    launched: GatedProcess[list[GatedRun[TrainResult]]]
    since: float

    def wait(self, patience: float) -> list[NetworkRun]:
        """One run for each rank. After ``patience`` seconds all are killed."""
        ended = self.launched.ended(patience)
        self.networks.evidence.waited += time.monotonic() - self.since
        return [*map(self.networks.observed, ended)]

    def settles(self) -> None:
        """Wait until every rank is waiting, or is stopped and the others wait for it."""
        self.launched.settles()

    def blamed(self, lost: int) -> list[int]:
        """Ranks that the others' error messages name after the rank ``lost`` was killed. Messages
        about a rank's start, and paths with its number, do not count."""
        lines = self.launched.said(lost).splitlines()
        errors = [each for each in lines if _ERROR.search(each) and not _NO_ERROR.search(each)]
        return sorted({int(each[1]) for line in errors for each in _RANK.finditer(line)})

    def wrong_sums(self, runs: Sequence[NetworkRun]) -> list[int]:
        """Ranks whose sum is not the sum of what all ranks contributed."""
        import numpy

        first = runs[0].network.outputs[0]
        parts = [run.result.outputs[first] for run in runs if run.result.outputs]
        total = numpy.sum(parts, axis=0) if parts else None
        return [
            rank
            for rank, received in enumerate(self.launched.sums)
            if total is None or received is None or not numpy.allclose(received, total, rtol=1e-4)
        ]


@contextmanager
def launched_gang(
    networks: NetworkUnderTest,
    network: Network,
    size: int,
    environment: Mapping[str, str] | None = None,
    script: Script | None = None,
) -> Iterator[LaunchedGang]:
    """Start a gang with the toolchain's launcher. Ranks that nobody waits for are killed."""
    with meeting_place(size) as place:
        request = networks.request(network, environment=environment, script=script)
        before = look(networks.site)
        since = time.monotonic()
        launched = networks.toolchain.gang(request, size, place.port, before)
        try:
            yield LaunchedGang(networks, launched, since)
        finally:
            launched.kill()
