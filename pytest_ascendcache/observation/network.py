"""Networks under test: ranks that run them, watched, with directories of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import KERNEL_META, NetworkLayout, Snapshot
from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.faults import FaultPlan
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Step
from pytest_ascendcache.observation.impostor import TENSOR, Marks, misfits
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.meeting_place import Address
from pytest_ascendcache.observation.network_aftermath import NetworkWitness
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.observation.watch import Watch, rank_of
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import (
    Script,
    Toolchain,
    ToolchainError,
    TrainRequest,
    TrainResult,
)


@dataclass(frozen=True)
class NetworkControl:
    """What checks may take for granted: the impostor, and whether it is run once it stands in a
    kernel's place; ``reuses``: a kernel is used again at all, changed or not. ``reason`` says why
    not.

    ``shelf`` is a directory for marked copies of warm kernels, where copies are found to serve;
    ``warm`` says which are there. ``seconds`` is what a run took that found everything cached.
    """

    impostor: Marks
    serves_marked: bool = True
    reuses: bool = True
    reason: str = ""
    shelf: Path | None = None
    seconds: float = 0.0
    warm: dict[tuple[OperatorSpec, ...], Path] = field(default_factory=dict)


class NetworkUnderTest:
    """Ranks of the toolchain under test, in an empty directory of their own.

    ``cache`` is what ``MS_COMPILER_CACHE_PATH`` names unless a request says otherwise, ``work``
    the working directory. Every run is a process.
    """

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
        """What :meth:`run` would start; ``gang`` says that there are others and where to meet."""
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
        """Run a network as one rank on its own.

        Raises:
            ToolchainError: where the process fails or does not end: no verdict rests on it.
        """
        request = self.request(network, rank, environment=environment, phase=phase)
        run = self.attempt(request)
        if not run.succeeded:
            raise ToolchainError(f"the rank {run.result.failure}")
        return run

    def needs_reuse(self) -> None:
        """For a check that a kernel is not used, which says nothing of a toolchain that uses none.

        Raises:
            NotDecidable: where the positive control has shown that it does not.
        """
        if not self._control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self._control.reason}")

    def attempt(self, request: TrainRequest) -> NetworkRun:
        """Like :meth:`run`, where failing is an answer too; only a hang is not."""
        return self.together(request)[0]

    def together(self, *requests: TrainRequest) -> list[NetworkRun]:
        """Start one process a request, all at once, and wait for every one of them.

        Raises:
            ToolchainError: where one of them does not end.
        """
        with self.watch() as watch:
            processes = [watch.start(request) for request in requests]
            runs = [watch.wait(process) for process in processes]
        for run in runs:
            if run.result.returncode is None:
                raise ToolchainError(f"the rank {run.result.failure}")
        return [replace(run, after=runs[-1].after) for run in runs]

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        """Watch ranks that are started, and ended, one by one; nobody is left behind."""
        watch = Watch(self.toolchain, self.site, self.evidence, self.observed)
        try:
            yield watch
        finally:
            watch.end()

    def interruption(self, network: Network) -> Interruption[NetworkRun]:
        """A run of rank 0 on its own, recorded now, that can then be interrupted. Needs
        ``Capability.FAULT_POINTS``."""

        def start(plan: FaultPlan) -> NetworkRun:
            return self.attempt(replace(self.request(network), plan=plan))

        logs = self.sandbox / f"record{next(self._numbers)}"
        return Interruption(self.cache, logs, self.toolchain.fault_route(), start)

    def recovery(self, network: Network) -> str | None:
        """What is wrong with the next two runs of rank 0: the first must give the right outputs,
        the second must run the kernels on disk. ``None`` where nothing is."""
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
        """Where what a rank compiled is kept, below :attr:`cache`."""
        environment = {"MS_COMPILER_CACHE_PATH": str(self.cache), "RANK_ID": str(rank)}
        return Path(self.layout.place({**environment, "RANK_SIZE": "1"}, self.work))

    def kernels(self, rank: int | str = 0) -> Mapping[str, Any]:
        """The kernels of a rank below :attr:`cache` by stem, parts of one included.

        They are of the toolchain's layout: ``RankKernel`` where it is that of document M.
        """
        return self.layout.read(self.place(rank))

    def warm(self, network: Network) -> None:
        """Run a network as rank 0 on its own, and mark its kernels.

        Equal kernels of this session are copied instead, where the positive control has shown
        that copies are used.

        Raises:
            ToolchainError: where the run fails.
            NotDecidable: where it leaves no kernels to be marked.
        """
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
            # Ranks of a gang are processes that share the shelf.
            kept = self._control.shelf / f"{os.getpid()}-{len(self._control.warm)}"
            shutil.copytree(place, kept, symlinks=True)
            self._control.warm[network.operators] = kept

    def mark(self, rank: int | str = 0) -> None:
        """Put the impostor in the place of every kernel of a rank.

        Raises:
            NotDecidable: where there is none, or one that is not whole.
        """
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
        """Take kernels of a rank for marked that were copied with their marks."""
        place = self.place(rank)
        stems = self.layout.read(place)
        self._marked.update(f"{place.relative_to(self.site)}/{stem}" for stem in stems)

    def share(self, directory: Path) -> None:
        """Use directories that other ranks use at the same time; the working directory too."""
        self.site = directory / "site"
        self.cache = self.site / "cache"
        self.work = self.site / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def copy_cache(self) -> Path:
        """A copy of :attr:`cache` beside it, marks included, for a gang of its own."""
        copy = self.site / f"cache{next(self._numbers)}"
        shutil.copytree(self.cache, copy, symlinks=True)
        name = self.cache.name
        self._marked |= {each.replace(name, copy.name, 1) for each in self._marked}
        return copy

    def observed(self, result: TrainResult, before: Snapshot) -> NetworkRun:
        """A finished run, with the directories as they are now."""
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
        """Start one rank to see what has become of the directories; not ending is an answer."""
        with self.watch() as watch:
            return watch.wait(watch.start(request))

    def new_directory(self) -> Path:
        """A directory for one run that does not exist yet."""
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
        self.evidence.steps.append(
            Step(
                command=run.result.command,
                ending=run.result.ending,
                outcomes=run.describe() if run.succeeded else (),
                changes=run.shown_changes,
                output=shown_output(run.output, run.succeeded),
            )
        )

    def _cross_check(self, run: NetworkRun) -> None:
        """Tell where the toolchain's own count says otherwise; nothing is decided by it."""
        claimed = run.result.claimed
        if claimed is None or run.wrong or not (run.trusted and run.was_marked):
            return
        if (claimed > 0) != bool(run.compiled):
            self.evidence.notes.append(
                f"the toolchain says it compiled {claimed}; of the operators that can tell "
                f"{len(run.compiled)} were compiled"
            )
