"""Networks under test: watched ranks with directories of their own."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import KERNEL_META, NetworkLayout, Snapshot
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.ranks import Phase, is_rank_id
from pytest_ascendcache.observation.aftermath import LATER_RUNS, LOOKED_AT, harm_in_ending
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Sighting
from pytest_ascendcache.observation.impostor import TENSOR, Marks, misfits
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.meeting_place import Address
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

_DIGITS = 5
"""Longest rank id that no toolchain has a reason to refuse."""


@dataclass(frozen=True)
class NetworkControl:
    """What checks may assume: the marker, and whether a marked kernel runs. ``reuses``: kernels are
    reused at all, changed or not. ``reason`` says why not.

    If copies of kernels are used, ``shelf`` is a directory for marked copies and ``warm`` lists
    them. ``seconds`` is the duration of a run that found everything cached.
    """

    impostor: Marks
    serves_marked: bool = True
    reuses: bool = True
    reason: str = ""
    shelf: Path | None = None
    seconds: float = 0.0
    warm: dict[tuple[OperatorSpec, ...], Path] = field(default_factory=dict)


class Watch:
    """Ranks of ``networks`` that are started and waited for one by one."""

    def __init__(self, networks: NetworkUnderTest) -> None:
        self._networks = networks
        self._before = Snapshot.take(networks.site)
        self._running: list[RankProcess] = []
        self._since = 0.0

    def start(self, request: TrainRequest) -> RankProcess:
        """Start one rank. Wait for it with :meth:`wait`."""
        if not self._running:
            self._since = time.monotonic()
        process = self._networks.toolchain.start_rank(request)
        self._networks.evidence.happened(rank_of(request), "start")
        self._running.append(process)
        return process

    def wait(self, process: RankProcess, deadline: float | None = None) -> NetworkRun:
        """Wait for a rank to end; kill it after ``deadline`` seconds."""
        result = process.wait(deadline, [each for each in self._running if each is not process])
        self._running.remove(process)
        if not self._running:
            self._networks.evidence.waited += time.monotonic() - self._since
        return self._networks.observed(result, self._before)

    def end(self) -> None:
        """Kill every rank that nobody waited for."""
        end_all(self._running)
        self._running.clear()


class NetworkUnderTest:
    """Ranks of the toolchain under test, in an empty directory of their own. ``cache`` is the
    default of ``MS_COMPILER_CACHE_PATH``, ``work`` the working directory. Every run is a
    process."""

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        control: NetworkControl,
        evidence: Evidence | None = None,
    ) -> None:
        self.toolchain = toolchain
        self.sandbox = sandbox
        self.site = sandbox / "site"
        self.cache = self.site / "cache"
        self.work = self.site / "work"
        self.evidence = evidence or Evidence()
        self.layout: NetworkLayout = getattr(toolchain, "network_layout", KERNEL_META)
        self._control = control
        self._marked: set[str] = set()
        self._numbers = count()
        self.witness = NetworkWitness(self)
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

    def run(
        self,
        network: Network,
        rank: int | str | None = None,
        environment: Mapping[str, str] | None = None,
        phase: Phase | None = None,
    ) -> NetworkRun:
        """Run a network as a single rank. Raises ``ToolchainError`` if the process fails or does
        not end. No verdict rests on it."""
        request = self.request(network, rank, environment=environment, phase=phase)
        run = self.attempt(request)
        if not run.succeeded:
            raise ToolchainError(f"the rank {run.result.failure}")
        return run

    def needs_reuse(self) -> None:
        """Call this before checking that a kernel is not used: a toolchain that reuses none would
        pass. Raises ``NotDecidable`` if the positive control has seen no reuse."""
        if not self._control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self._control.reason}")

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

    def interruption(self, network: Network) -> Interruption[NetworkRun]:
        """Record a run of rank 0 now, so that it can be interrupted later. Needs
        ``Capability.FAULT_POINTS``."""
        return Interruption(
            self.cache,
            self.sandbox / f"record{next(self._numbers)}",
            self.toolchain.fault_route(),
            lambda plan: self.attempt(replace(self.request(network), plan=plan)),
        )

    def recovery(self, network: Network) -> str | None:
        """What is wrong with the next two runs of rank 0, or None. The first must have the right
        outputs, the second must run the kernels on disk."""
        steps = len(self.evidence.steps)
        first = self.attempt(self.request(network))
        if not first.succeeded:
            return f"the next run {first.result.ending}"
        if first.wrong:
            return f"the next run gives wrong outputs: {first.wrong}"
        damaged = [stem for stem, kernel in self.kernels().items() if not kernel.is_valid]
        if damaged:
            return f"the next run leaves {', '.join(damaged)} damaged"
        if not self.kernels():
            return "the next run keeps no kernel"
        self.mark()
        second = self.attempt(self.request(network))
        if not second.succeeded:
            return f"the run after the next {second.result.ending}"
        if second.wrong or second.compiled:
            return f"the run after the next compiles {sorted(second.compiled)} again"
        del self.evidence.steps[steps:]
        return None

    def place(self, rank: int | str = 0) -> Path:
        """The directory below :attr:`cache` for what a rank compiled."""
        environment = {"MS_COMPILER_CACHE_PATH": str(self.cache), "RANK_ID": str(rank)}
        return Path(self.layout.place({**environment, "RANK_SIZE": "1"}, self.work))

    def kernels(self, rank: int | str = 0) -> Mapping[str, Any]:
        """The kernels of a rank below :attr:`cache` by stem, incomplete ones included. They have
        the toolchain's layout: ``RankKernel`` for that of document M."""
        return self.layout.unit.read_all(self.place(rank))

    def warm(self, network: Network) -> None:
        """Run a network as rank 0, and mark its kernels. Equal kernels of this session are copied
        instead, if the positive control has seen copies used. Raises ``ToolchainError`` if the run
        fails, and ``NotDecidable`` if it leaves no kernels that can be marked."""
        if wrong := misfits(network):
            raise NotDecidable(
                f"{', '.join(wrong)}: no impostor fits; kernels are marked of operators with one "
                f"input and one output, both of {TENSOR.elements} {TENSOR.dtype}"
            )
        place = self.place()
        template = self._control.warm.get(network.operators)
        if template is not None and not place.exists():
            shutil.copytree(template, place, symlinks=True)
            self.adopt()
            return
        pristine = not place.exists()
        self.run(network)
        self.mark()
        if pristine and self._control.shelf is not None:
            # The ranks of a gang are processes that share the shelf.
            kept = self._control.shelf / f"{os.getpid()}-{len(self._control.warm)}"
            shutil.copytree(place, kept, symlinks=True)
            self._control.warm[network.operators] = kept

    def mark(self, rank: int | str = 0) -> None:
        """Put the impostor in the place of every kernel of a rank. Raises ``NotDecidable`` if there
        is no kernel, or an incomplete one."""
        if not self._control.impostor.usable:
            raise NotDecidable(f"no kernel can be marked: {self._control.reason}")
        kernels = self.kernels(rank)
        if not kernels:
            raise NotDecidable(f"rank {rank} has no kernel that could be marked")
        for stem, kernel in kernels.items():
            try:
                self._control.impostor.put(kernel)
            except ValueError as error:
                raise NotDecidable(f"{stem} cannot be marked: {error}") from None
            self._marked.add(f"{kernel.directory.relative_to(self.site)}/{stem}")

    def adopt(self, rank: int | str = 0) -> None:
        """Treat a rank's kernels as marked, because they were copied with their markers."""
        place = self.place(rank)
        stems = self.layout.unit.read_all(place)
        self._marked.update(f"{place.relative_to(self.site)}/{stem}" for stem in stems)

    def share(self, directory: Path) -> None:
        """Use directories that other ranks use at the same time, the working directory included."""
        self.site = directory / "site"
        self.cache = self.site / "cache"
        self.work = self.site / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def copy_cache(self) -> Path:
        """A copy of :attr:`cache` next to it, with its markers."""
        copy = self.site / f"cache{next(self._numbers)}"
        shutil.copytree(self.cache, copy, symlinks=True)
        name = self.cache.name
        self._marked |= {each.replace(name, copy.name, 1) for each in self._marked}
        return copy

    def observed(self, result: TrainResult, before: Snapshot) -> NetworkRun:
        """A finished run, with the current state of the directories."""
        place = self.layout.place(result.request.environment, result.request.work)
        inside = place.is_relative_to(self.site)
        run = NetworkRun(
            result=result,
            before=before,
            after=Snapshot.take(self.site),
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
        self.evidence.starts += 1
        self._cross_check(run)
        self.evidence.compiles += len(run.network.nodes)
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


class NetworkWitness:
    """Watches the runs of one ``NetworkUnderTest`` for harm."""

    def __init__(self, networks: NetworkUnderTest) -> None:
        self._networks = networks
        self._runs: deque[NetworkRun] = deque(maxlen=LOOKED_AT)

    def note(self, run: NetworkRun) -> None:
        self._runs.append(run)
        self._networks.evidence.ran(self)

    def seen(self) -> list[Sighting]:
        sightings = []
        for run in self._runs:
            sightings += harm_in_ending("the rank", run.returncode, run.result.ending)
            if run.result.outputs is not None and run.wrong:
                name, how = next(iter(run.wrong.items()))
                what = f"the output {name} of a network {how}"
                sightings.append(Sighting(Harm.WRONG_RESULT, what))
        return sightings

    def afterwards(self) -> Sighting | None:
        """Run the last network as a single rank, with the id of the rank that ran last and in the
        directories where that rank kept its kernels."""
        if not self._runs:
            return None
        last = self._runs[-1]
        rank = last.result.request.environment.get("RANK_ID", "")
        # A rank id that a toolchain may refuse tells nothing about the cache.
        rank = rank if is_rank_id(rank) and len(rank) <= _DIGITS else ""
        base = self._networks.request(last.network, rank or None)
        run = last
        for _ in range(LATER_RUNS):
            run = self._networks.again(replace(base, directory=self._networks.new_directory()))
            if run.returncode is None:
                return Sighting(Harm.HANG, f"a later run {run.result.ending}")
            if run.result.outputs is not None and run.wrong:
                return Sighting(Harm.WRONG_RESULT, f"a later run has wrong outputs: {run.wrong}")
            if run.succeeded and not _shows_marks(last.network):
                return None  # no later run would show which kernels were reused
            if run.succeeded and run.was_marked and not run.compiled:
                break
            if run.succeeded:
                self._mark(base, rank or 0)
        return _usability(run, last)

    def _mark(self, request: TrainRequest, rank: str | int) -> None:
        """Mark the kernels that were kept. If there are none, the next run shows it. A single rank
        may keep them as rank 0, whatever its id. Those of another rank may be marked already."""
        if Path(request.environment["MS_COMPILER_CACHE_PATH"]) != self._networks.cache:
            return
        refused = []
        ranks = [kept_by for kept_by in sorted({str(rank), "0"}) if self._networks.kernels(kept_by)]
        for kept_by in ranks:
            try:
                self._networks.mark(kept_by)
            except NotDecidable as error:
                refused.append(error)
        if ranks and len(refused) == len(ranks):
            raise refused[0]


def _shows_marks(network: Network) -> bool:
    """Whether an output tells of each operator if its kernel is an impostor: it fits in its place,
    and no other operator takes what it gives."""
    inputs = [name for node in network.nodes for name in node.inputs]
    return not misfits(network) and all(name in network.constants for name in inputs)


def _usability(run: NetworkRun, last: NetworkRun) -> Sighting | None:
    if not run.succeeded:
        return Sighting(Harm.UNUSABLE, f"every later run fails: it {run.result.ending}")
    if not run.was_marked:
        return Sighting(Harm.UNUSABLE, "no later run keeps a kernel")
    if run.compiled:
        again = ", ".join(sorted(run.compiled))
        return Sighting(Harm.UNUSABLE, f"every later run compiles {again} again")
    if not last.succeeded:
        return Sighting(Harm.LOST_WORK, f"a run {last.result.ending}; later ones work")
    return None


def rank_of(request: TrainRequest) -> str:
    """The rank of a request, as its environment spells it."""
    return request.environment.get("RANK_ID", "") or "0"
