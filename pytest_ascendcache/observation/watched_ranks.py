"""Ranks of a toolchain in directories of their own, each watched from its start to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Protocol, cast

from pytest_ascendcache.caches import KERNEL_META, NetworkLayout
from pytest_ascendcache.contract.facts import Numbers
from pytest_ascendcache.contract.ranks import Phase, is_rank_id
from pytest_ascendcache.observation.evidence import Evidence
from pytest_ascendcache.observation.gate import Gated, GatedProcess
from pytest_ascendcache.observation.gated_run import GatedRun, look
from pytest_ascendcache.observation.impostor import Marks
from pytest_ascendcache.observation.meeting_place import ATTENDANCE, Address, Attendance
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.processes.launch import end_all
from pytest_ascendcache.toolchains import (
    RankProcess,
    Script,
    Toolchain,
    ToolchainError,
    TrainRequest,
    TrainResult,
)


@dataclass(frozen=True)
class NetworkControl:
    """What checks may assume: the marker, and whether a marked kernel runs. ``reuses``: kernels are
    reused at all, changed or not. ``reason`` says why not.

    If copies of kernels are used, ``shelf`` is a directory for marked copies and ``warm`` lists
    them.
    """

    impostor: Marks
    serves_marked: bool = True
    reuses: bool = True
    reason: str = ""
    shelf: Path | None = None
    warm: dict[tuple[OperatorSpec, ...], Path] = field(default_factory=dict)


class Watch:
    """Ranks of ``networks`` that are started and waited for one by one."""

    def __init__(self, networks: WatchedRanks) -> None:
        self._networks = networks
        self._before = look(networks.site)
        self._running: list[RankProcess] = []
        self._places: dict[RankProcess, tuple[Attendance, int]] = {}
        self._since = 0.0

    @property
    def evidence(self) -> Evidence:
        """The evidence of the check that watches."""
        return self._networks.evidence

    def start(self, request: TrainRequest) -> RankProcess:
        """Start one rank. Wait for it with :meth:`wait`."""
        if not self._running:
            self._since = time.monotonic()
        # Another thread may see a rank end that met this one before it is started for us.
        attendance = self._attendance(request)
        place = attendance.comes(int(rank_of(request))) if attendance is not None else 0
        process = cast("RankProcess", self._networks.toolchain.rank(request, self._before))
        self._networks.evidence.happened(rank_of(request), "start")
        self._running.append(process)
        if attendance is not None:
            self._places[process] = attendance, place
        return process

    def _attendance(self, request: TrainRequest) -> Attendance | None:
        """Who is there where this rank meets the others; None if that cannot be told."""
        apart = getattr(self._networks.toolchain, "ranks_apart", "")
        if apart or not is_rank_id(rank_of(request)):
            return None
        return ATTENDANCE.get(request.environment.get("MS_SCHED_PORT", ""))

    def wait(self, process: RankProcess, deadline: float | None = None) -> NetworkRun:
        """Wait for a rank to end; kill it after ``deadline`` seconds."""
        others = [each for each in self._running if each is not process]
        run = cast("GatedProcess[GatedRun[TrainResult]]", process).ended(deadline, others)
        self._running.remove(process)
        if not self._running:
            self._networks.evidence.waited += time.monotonic() - self._since
        observed = self._networks.observed(run)
        if process in self._places:
            self._needs_everybody(observed, *self._places.pop(process))
        return observed

    def _needs_everybody(self, run: NetworkRun, attendance: Attendance, place: int) -> None:
        """Break the check if a rank ran the network although another one was never there."""
        absent = attendance.never_met(place)
        attendance.goes(place)
        looking = self._networks.evidence.is_looking
        if run.result.returncode == 0 and absent and not looking:
            ranks = ", ".join(map(str, sorted(absent)))
            own = rank_of(run.result.request)
            message = f"rank {own} ends well, and was never there together with rank {ranks}"
            raise AssertionError(
                self._networks.evidence.found(Numbers.WITHOUT_A_RANK, message, "meeting")
            )

    def end(self) -> None:
        """Kill every rank that nobody waited for."""
        end_all(self._running)
        self._running.clear()


class RunWitness(Protocol):
    """Who is told of every run."""

    def note(self, run: NetworkRun) -> None: ...


class WatchedRanks(Gated):
    """Starts ranks, and observes them between two looks at the site."""

    witness: RunWitness

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        control: NetworkControl,
        evidence: Evidence | None = None,
    ) -> None:
        super().__init__(toolchain, evidence)
        self.sandbox = sandbox
        self.site = sandbox / "site"
        self.cache = self.site / "cache"
        self.work = self.site / "work"
        self.layout: NetworkLayout = getattr(toolchain, "network_layout", KERNEL_META)
        self._control = control
        self._marked: set[str] = set()
        self._numbers = count()
        self.work.mkdir(parents=True)

    def __repr__(self) -> str:
        return f"<networks in {self.sandbox}>"

    def request(
        self,
        network: Network,
        rank: int | str | None = None,
        gang: Address | None = None,
        environment: Mapping[str, str] | None = None,
        phase: Phase | None = None,
        second: float = 1.0,
        file: Path | None = None,
        script: Script | None = None,
    ) -> TrainRequest:
        """The request of :meth:`run`. ``gang`` says how many ranks there are and where they
        meet."""
        settings = {"MS_COMPILER_CACHE_PATH": str(self.cache)}
        if rank is not None:
            settings["RANK_ID"] = str(rank)
        if gang is not None:
            settings.update(gang.environment)
        settings.update(environment or {})
        return TrainRequest(
            network,
            self.new_directory(),
            self.work,
            settings,
            phase,
            second,
            file,
            script=script or Script(),
        )

    def attempt(self, request: TrainRequest) -> NetworkRun:
        """Like :meth:`run`, but a failure is a valid result. Raises ``ToolchainError`` if the
        process does not end."""
        return self.together(request)[0]

    def together(self, *requests: TrainRequest) -> list[NetworkRun]:
        """Start one process for each request, all at the same time, and wait for all of them.
        Raises ``ToolchainError`` if one of them does not end."""
        with self.watch() as watch:
            processes = [watch.start(request) for request in requests]
            runs = [watch.wait(process) for process in processes]
        for run in runs:
            if run.result.returncode is None:
                raise ToolchainError(f"the rank {run.result.failure}")
        return [replace(run, after=runs[-1].after) for run in runs]

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        """Watch ranks that are started and end one by one. Those still running at the end are
        killed."""
        watch = Watch(self)
        try:
            yield watch
        finally:
            watch.end()

    def observed(self, gated: GatedRun[TrainResult]) -> NetworkRun:
        """A finished run, with the state of the directories before and after."""
        result = gated.result
        place = self.layout.place(result.request.environment, result.request.work)
        inside = place.is_relative_to(self.site)
        run = NetworkRun(
            result=result,
            before=gated.before[self.site],
            after=gated.after[self.site],
            place=str(place.relative_to(self.site)) if inside else str(place),
            impostor=self._control.impostor,
            marked=frozenset(self._marked),
            trusted=self._control.serves_marked,
            layout=self.layout,
        )
        self._note(run)
        self.evidence.asleep = round(self.evidence.asleep + result.asleep, 1)
        self.witness.note(run)
        return run

    def again(self, request: TrainRequest) -> NetworkRun:
        """Start one rank to see the state of the directories. Not ending is a valid result."""
        with self.watch() as watch:
            return watch.wait(watch.start(request))

    def new_directory(self) -> Path:
        """A path for one run's files that does not exist yet."""
        return self.sandbox / f"run{next(self._numbers)}"

    def _note(self, run: NetworkRun) -> None:
        rank = rank_of(run.result.request)
        if run.stored:
            self.evidence.happened(
                rank, "compiled", f"{len(run.stored)} kernels stored", run.stored_at
            )
        self.evidence.happened(rank, "end", run.result.ending)
        self._cross_check(run)
        self.evidence.steps.append(run.step())

    def _cross_check(self, run: NetworkRun) -> None:
        """Note if the toolchain's own count disagrees. No verdict rests on it."""
        claimed = run.result.claimed
        if claimed is None or run.wrong or not (run.trusted and run.was_marked):
            return
        if (claimed > 0) != bool(run.compiled):
            self.evidence.notes.append(
                f"the toolchain says it compiled {claimed}; of the operators that can tell "
                f"{len(run.compiled)} were compiled"
            )


def rank_of(request: TrainRequest) -> str:
    """The rank of a request, as its environment spells it."""
    return request.environment.get("RANK_ID", "") or "0"
