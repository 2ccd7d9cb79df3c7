"""Networks under test: watched ranks with directories of their own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.facts import Ending, Fact, Later, Numbers, outcome_fact
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REUSED, REWRITTEN
from pytest_ascendcache.contract.ranks import LONGEST_SURE_RANK, Phase, is_rank_id
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation.aftermath import LATER_RUNS, LOOKED_AT, harm_in_ending
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.observation.impostor import TENSOR, misfits
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.observation.request_options import PhaseName, checked, checked_network
from pytest_ascendcache.observation.watched_ranks import NetworkControl, WatchedRanks
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import (
    Toolchain,
    ToolchainError,
    TrainRequest,
)


class NetworkUnderTest(WatchedRanks):
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
        super().__init__(toolchain, sandbox, control, evidence)
        self.witness = NetworkWitness(self)

    def run(
        self,
        network: Network,
        rank: int | None = None,
        environment: Mapping[str, str] | None = None,
        phase: Phase | PhaseName | None = None,
    ) -> NetworkRun:
        """Run a network as a single rank. Raises ``ToolchainError`` if the process fails or does
        not end; no verdict rests on it. A bad rank id is a ``RANK_ID`` in ``environment``."""
        given = checked("run", {"rank": rank, "environment": environment, "phase": phase})
        request = self.request(checked_network("run", network), **given)
        run = self.attempt(request)
        if not run.succeeded:
            raise ToolchainError(f"the rank {run.result.failure}")
        return run

    def needs_reuse(self) -> None:
        """Call this before checking that a kernel is not used: a toolchain that reuses none would
        pass. Raises ``NotDecidable`` if the positive control has seen no reuse."""
        if not self._control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self._control.reason}")

    def failed_for_the_cache(self, run: NetworkRun) -> str:
        """How a run failed that succeeds in an empty cache; empty if it did not fail. Raises
        ``ToolchainError`` if it fails there too, which is not the cache's fault."""
        if run.succeeded:
            return ""
        environment = {"MS_COMPILER_CACHE_PATH": str(self.new_directory())}
        request = run.result.request
        elsewhere = replace(request, environment={**request.environment, **environment}, plan=None)
        again = self.attempt(replace(elsewhere, directory=self.new_directory()))
        if not again.succeeded:
            raise ToolchainError(f"the rank {again.result.failure}")
        return f"the rank {run.result.ending}, and succeeds in an empty cache"

    def interruption(self, network: Network) -> Interruption[NetworkRun]:
        """Record a run of rank 0 now, so that it can be interrupted later. Needs
        ``Capability.FAULT_POINTS``."""
        return Interruption(
            self.cache,
            self.sandbox / f"record{next(self._numbers)}",
            self.toolchain.fault_route(),
            lambda plan: self.attempt(replace(self.request(network), plan=plan)),
        )

    def recovery(self, network: Network) -> Fact | None:
        """What is wrong with the next two runs of rank 0, or None. The first must have the right
        outputs, the second must run the kernels on disk."""
        steps = len(self.evidence.steps)
        first = self.attempt(self.request(network))
        if not first.succeeded:
            return Fact.seen(Ending.FAILURE, f"the next run {first.result.ending}")
        if first.wrong:
            return Fact.seen(Numbers.WRONG, f"the next run gives wrong outputs: {first.wrong}")
        kernels = self.kernels()
        damaged = [stem for stem, kernel in kernels.items() if not kernel.is_valid]
        # A damaged one may stay beside a new one of another name: nothing finds it.
        needed = {replace(each, name="") for each in network.operators}
        if damaged and len(kernels) - len(damaged) < len(needed):
            left = f"the next run leaves {', '.join(damaged)} damaged"
            return outcome_fact(KEPT, [REWRITTEN], damaged[0], detail=left)
        if not kernels:
            return Fact.seen(Later.STORES_NOTHING, "the next run keeps no kernel")
        self.mark(but=damaged)
        second = self.attempt(self.request(network))
        if not second.succeeded:
            return Fact.seen(Ending.FAILURE, f"the run after the next {second.result.ending}")
        if second.wrong or second.compiled:
            again = f"the run after the next compiles {sorted(second.compiled)} again"
            return outcome_fact(COMPILED, [REUSED], detail=again)
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
        network = checked_network("warm", network)
        if wrong := misfits(network):
            raise NotDecidable(
                f"{', '.join(wrong)}: no impostor fits; kernels are marked of operators with one "
                f"input and one output, both of {TENSOR.elements} {TENSOR.dtype}"
            )
        place = self.place()
        template = self._control.warm.get(network.operators)
        if template is not None and not place.exists():
            copy_tree(template, place)
            self.adopt()
            return
        pristine = not place.exists()
        self.run(network)
        self.mark()
        if pristine and self._control.shelf is not None:
            # The ranks of a gang are processes that share the shelf.
            kept = self._control.shelf / f"{os.getpid()}-{len(self._control.warm)}"
            copy_tree(place, kept)
            self._control.warm[network.operators] = kept

    def mark(self, rank: int | str = 0, but: Collection[str] = ()) -> None:
        """Put the impostor in the place of every kernel of a rank ``but`` of some. Raises
        ``NotDecidable`` if there is no kernel, or an incomplete one."""
        if not self._control.impostor.usable:
            raise NotDecidable(f"no kernel can be marked: {self._control.reason}")
        kernels = self.kernels(rank)
        if not kernels:
            raise NotDecidable(f"rank {rank} has no kernel that could be marked")
        for stem, kernel in ((each, kernels[each]) for each in kernels if each not in but):
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
        copy_tree(self.cache, copy)
        name = self.cache.name
        self._marked |= {each.replace(name, copy.name, 1) for each in self._marked}
        return copy


class NetworkWitness:
    """Watches the runs of one ``NetworkUnderTest`` for harm."""

    def __init__(self, networks: NetworkUnderTest) -> None:
        self._networks = networks
        self._runs: deque[NetworkRun] = deque(maxlen=LOOKED_AT)

    def note(self, run: NetworkRun) -> None:
        self._runs.append(run)
        self._networks.evidence.ran(self)

    def seen(self) -> list[Fact]:
        facts = []
        for run in self._runs:
            facts += harm_in_ending("the rank", run.returncode, run.result.ending)
            if run.result.outputs is not None and run.wrong:
                name, how = next(iter(run.wrong.items()))
                what = f"the output {name} of a network {how}"
                facts.append(Fact.seen(Numbers.WRONG, what))
        return facts

    def afterwards(self) -> Fact | None:
        """Run the last network as a single rank, with the id of the rank that ran last and in the
        directories where that rank kept its kernels."""
        if not self._runs:
            return None
        last = self._runs[-1]
        rank = last.result.request.environment.get("RANK_ID", "")
        # A rank id that a toolchain may refuse tells nothing about the cache.
        rank = rank if is_rank_id(rank) and len(rank) <= LONGEST_SURE_RANK else ""
        base = self._networks.request(last.network, rank or None)
        run = last
        for _ in range(LATER_RUNS):
            run = self._networks.again(replace(base, directory=self._networks.new_directory()))
            if run.returncode is None:
                return Fact.seen(Ending.NO_END, f"a later run {run.result.ending}")
            if run.result.outputs is not None and run.wrong:
                return Fact.seen(Numbers.WRONG, f"a later run has wrong outputs: {run.wrong}")
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


def _usability(run: NetworkRun, last: NetworkRun) -> Fact | None:
    if not run.succeeded:
        return Fact.seen(Later.FAILS, f"every later run fails: it {run.result.ending}")
    if not run.was_marked:
        return Fact.seen(Later.STORES_NOTHING, "no later run keeps a kernel")
    if run.compiled:
        again = ", ".join(sorted(run.compiled))
        return Fact.seen(Later.COMPILES, f"every later run compiles {again} again")
    if not last.succeeded:
        return Fact.seen(Ending.FAILURE, f"a run {last.result.ending}; later ones work")
    return None
