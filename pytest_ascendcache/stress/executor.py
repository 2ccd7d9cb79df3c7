"""Runs the rounds of a stress run on a toolchain, and records what comes of them.

Everything is below one directory. Each rank has ``rank<N>/`` with its own ``cache``, ``home``,
``work`` and ``out``; ``shared/`` is the common cache, which each rank sees as its node does.
Kernels are compared byte by byte. Only a compile that runs alone marks entries, and it removes the
markers again.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_ascendcache.caches import CacheLayout, Change, Snapshot, read_entries
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.caches.snapshot import read_quietly
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE
from pytest_ascendcache.faults import Action, FaultGate, FaultPlan, Operation
from pytest_ascendcache.nodes import Nodes
from pytest_ascendcache.stress.disturb import SHELF, disturb, take_down
from pytest_ascendcache.stress.ground import Ground, kernel_digests, request_of, served_later
from pytest_ascendcache.stress.history import (
    SHARED,
    CacheSeen,
    Compile,
    Disturbed,
    Doing,
    EntrySeen,
    JobEnd,
    LaterCompiles,
    RankDelivery,
    Round,
    RoundRecord,
    Seen,
    StressJob,
)
from pytest_ascendcache.stress.history_file import HistoryWriter
from pytest_ascendcache.stress.jobs import Jobs, ending_of, operation_at
from pytest_ascendcache.toolchains import CompileRequest, CompileResult

_HELD = 5.0
"""Seconds for which a held process stays held while the others run: it may have a lock."""
_REACHES = 20.0
"""Seconds within which a process must reach the operation at which it is held."""
_LIMITS = {ENV_SIZE: "1", ENV_RATIO: "1"}
_ENDINGS = (".o", ".json", ".h", ".lock", "_pre.json", "_pre.lock")
"""Suffixes of an entry's files. Source: facts ``cann-operator-cache`` section 1.2."""


class Executor:
    """One execution of rounds, in an empty directory."""

    def __init__(self, ground: Ground, directory: Path, nodes: Nodes | None = None) -> None:
        self.ground = ground
        backing, views = nodes.directory() if nodes else (directory, (directory,))
        self._shared, self._views = backing / SHARED, [each / SHARED for each in views]
        header = ground.header
        self._soc = ground.toolchain.soc
        self._directory = directory
        self._numbers = itertools.count()
        self._ranks = [directory / f"rank{number}" for number in range(header.ranks)]
        self._names = [SHARED, *(rank.name for rank in self._ranks)]
        for rank in self._ranks:
            for part in ("home", "work", "out"):
                (rank / part).mkdir(parents=True)
        (directory / "faults").mkdir()
        seen = [views[header.node(rank)] for rank in range(header.ranks)]
        self._jobs = Jobs(ground.toolchain, ground.jobs, backing, seen, self._ranks)

    def carry_out(self, one: Round, writer: HistoryWriter) -> RoundRecord:
        """Run a round, and write down each step."""
        writer.write(one)
        for disturbance in one.disturbances:
            disturb(disturbance, self._layout(disturbance.cache).soc(self._soc))
        disturbed = None
        if one.disturbances:
            harmed = sorted({each.cache for each in one.disturbances})
            disturbed = writer.write(Disturbed(one.number, tuple(map(self._look, harmed))))
        before = self._snapshot()
        deliveries, ended = self._act(one)
        after = self._snapshot()
        for delivery in deliveries:
            writer.write(delivery)
        for each in ended:
            writer.write(each)
        for name in self._names:
            take_down(self._layout(name).soc(self._soc))
        touched = tuple(
            f"{name}/{path}"
            for name in before
            for path, change in before[name].changes(after[name]).items()
            if change is not Change.READ
        )
        caches = [name for name in self._names if self._layout(name).soc(self._soc).is_dir()]
        looks = tuple(map(self._look, caches))
        seen = writer.write(Seen(one.number, looks, touched, *self._jobs.installed()))
        later = writer.write(self._later(one.number, one.later)) if one.later else None
        rebuild = one.rebuild
        rebuilt = writer.write(self._jobs.rebuild(one.number, rebuild)) if rebuild else None
        for rank in self._ranks:
            shutil.rmtree(rank / "out", ignore_errors=True)
            (rank / "out").mkdir(exist_ok=True)
        return RoundRecord(one, tuple(deliveries), disturbed, seen, later, tuple(ended), rebuilt)

    def again(self, one: Compile) -> RankDelivery:
        """Repeat a compile in the caches as they are now. The history does not record it."""
        request = replace(
            self._requested(0, one), output=self._directory / f"again{next(self._numbers)}"
        )
        (run,) = self.ground.toolchain.compiled([request])
        return _delivery(0, one, run.result)

    def job_again(self, one: StressJob) -> JobEnd:
        """Repeat a job, without its fault."""
        return self._jobs.do(0, 0, replace(one, fault=None))

    def _later(self, number: int, one: Compile) -> LaterCompiles:
        """Compile with nothing else running, in the cache itself, where no node's caching is in the
        way."""
        root = self._layout(one.cache).root
        outputs = [self._ranks[one.rank] / "out" / f"{number}-{name}" for name in ("later", "last")]
        request = replace(self._requested(number, one), cache_dir=root, output=outputs[0])
        first, reused = served_later(self.ground.toolchain, request, outputs[1])
        return LaterCompiles(number, first.returncode, kernel_digests(first), reused)

    def _layout(self, cache: str) -> CacheLayout:
        return CacheLayout(self._shared if cache == SHARED else self._directory / cache / "cache")

    def _look(self, cache: str) -> CacheSeen:
        directory = self._layout(cache).soc(self._soc)
        entries = read_entries(directory)
        known = {stem + ending for stem in entries for ending in _ENDINGS}
        residue = [
            each.name
            for each in (directory.iterdir() if directory.is_dir() else ())
            if "te_" in each.name and each.name not in known and SHELF not in each.name
        ]
        seen = [
            EntrySeen(
                stem=stem,
                object=_digest(entry.object_path),
                metadata=_digest(entry.metadata_path),
                problems=tuple(entry.problems()),
            )
            for stem, entry in entries.items()
            if not stem.startswith(SHELF)
        ]
        return CacheSeen(cache, tuple(seen), tuple(sorted(residue)))

    def _snapshot(self) -> dict[str, Snapshot]:
        """Snapshots of all directories that ranks may write to, by name."""
        roots = [self._shared, *self._ranks]
        roots += [self._jobs.built] if self.ground.jobs.doings else []
        return {root.name: Snapshot.take(root) for root in roots}

    def _act(self, one: Round) -> tuple[list[RankDelivery], list[JobEnd]]:
        """Run all compiles and jobs of a round at the same time."""
        requests = [self._requested(one.number, each) for each in one.compiles]
        with ExitStack() as gates:
            for index, each in enumerate(one.compiles):
                at = operation_at(self.ground.points, each.fault)
                if each.fault is not None and at is not None:
                    plan = self._plan(each.fault.action, at, gates)
                    requests[index] = replace(requests[index], plan=plan)
            jobs = [self._task_of(one, index, gates) for index in range(len(one.jobs))]
            results = self._together(requests, jobs)
        ended = [each for each in results if isinstance(each, JobEnd)]
        by_output = {each.request.output: each for each in results if not isinstance(each, JobEnd)}
        deliveries = [
            _delivery(one.number, compile_, by_output[request.output])
            for compile_, request in zip(one.compiles, requests, strict=True)
        ]
        return deliveries, sorted(ended, key=lambda each: each.job)

    def _task_of(self, one: Round, index: int, gates: ExitStack) -> _Task:
        """The task that runs a job."""
        job = one.jobs[index]
        plan = self._plan_job(one, job, gates)
        gate = None if plan is None else plan.gate
        return _Task(lambda: [self._jobs.do(one.number, index, job, plan)], gate)

    def _plan_job(self, one: Round, job: StressJob, gates: ExitStack) -> FaultPlan | None:
        """The fault to inject into a job. A job is not held if installers on its node might wait
        for a lock that it has."""
        at = operation_at(self.ground.jobs.points, job.fault)
        if job.fault is None or at is None:
            return None
        node = self.ground.header.node
        waiting = [
            each
            for each in one.jobs
            if each is not job
            and each.doing in (Doing.INSTALL, Doing.UNINSTALL)
            and node(each.rank) == node(job.rank)
        ]
        if job.fault.action is Action.HOLD and waiting:
            return None
        return self._plan(job.fault.action, at, gates)

    def _requested(self, number: int, one: Compile) -> CompileRequest:
        rank = self._ranks[one.rank]
        shared = self._views[self.ground.header.node(one.rank)]  # as the rank's node sees it
        request = request_of(
            self.ground.toolchain,
            tuple(self.ground.operators[each] for each in one.operators),
            one.setting,
            one.mode,
            shared if one.shared else self._layout(one.cache).root,
            rank,
        )
        environment = _LIMITS if one.limited else {}
        return replace(request, output=rank / "out" / str(number), environment=environment)

    def _plan(self, action: Action, at: Operation, gates: ExitStack) -> FaultPlan:
        name = self._directory / "faults" / str(next(self._numbers))
        gate = gates.enter_context(FaultGate(name)) if action is Action.HOLD else None
        return FaultPlan(name.with_suffix(".log"), action, at, gate)

    def _together(
        self, requests: Sequence[CompileRequest], jobs: Sequence[_Task]
    ) -> list[CompileResult | JobEnd]:
        """Run everything at once. Tasks that are held start first, and go on when the others have
        ended."""

        def task(together: Sequence[CompileRequest], gate: FaultGate | None = None) -> _Task:
            toolchain = self.ground.toolchain
            return _Task(lambda: [each.result for each in toolchain.compiled(together)], gate)

        held = [(each, each.plan.gate) for each in requests if each.plan and each.plan.gate]
        tasks = [*jobs, *(task([request], gate) for request, gate in held)]
        if rest := [each for each in requests if not (each.plan and each.plan.gate)]:
            tasks.append(task(rest))
        if not tasks:
            return []
        gates = [each.gate for each in tasks if each.gate is not None]
        with ThreadPoolExecutor(len(tasks)) as pool:
            try:
                started = [pool.submit(each.start) for each in tasks if each.gate is not None]
                deadline = time.monotonic() + _REACHES
                for gate in gates:
                    gate.wait(deadline)
                others = [pool.submit(each.start) for each in tasks if each.gate is None]
                wait(others, _HELD if gates else None)
            finally:
                for gate in gates:
                    gate.release()
            return [result for future in (*started, *others) for result in future.result()]


@dataclass(frozen=True)
class _Task:
    """Work to run in a thread; if it has a ``gate``, its process is held there for a while."""

    start: Callable[[], list[CompileResult | JobEnd]]
    gate: FaultGate | None = None


def _digest(path: Path) -> str:
    try:
        return sha256(b"".join(read_quietly(path)))
    except OSError:
        return ""


def _delivery(number: int, compile_: Compile, result: CompileResult) -> RankDelivery:
    kernels = kernel_digests(result)
    ending = ending_of(result, result.request.plan)
    return RankDelivery(number, compile_.rank, result.returncode, kernels, *ending)
