"""Carries rounds out on a toolchain, below one directory, and says what came of them.

Each rank has ``rank<N>/`` with a ``cache``, a ``home``, a ``work`` and an ``out`` directory of its
own; ``shared/`` is everybody's cache, which each rank sees as its node does. Kernels are compared
byte by byte; only for the compile that is by itself are entries marked, and put back.
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
from pytest_ascendcache.faults import Action, FaultPlan, Gate, Operation
from pytest_ascendcache.nodes import Nodes
from pytest_ascendcache.stress.disturb import SHELF, disturb, take_down
from pytest_ascendcache.stress.ground import Ground, kernel_digests, request_of
from pytest_ascendcache.stress.history import (
    SHARED,
    CacheSeen,
    Compile,
    Delivery,
    Disturbed,
    Doing,
    Ended,
    EntrySeen,
    Job,
    Later,
    Round,
    RoundRecord,
    Seen,
)
from pytest_ascendcache.stress.history_file import HistoryWriter
from pytest_ascendcache.stress.jobs import Jobs
from pytest_ascendcache.stress.later import served_later
from pytest_ascendcache.toolchains import (
    CompileRequest,
    CompileResult,
)

_HELD = 5.0
"""Seconds the others may take while one stands still; then it goes on, lest it hold a lock."""
_REACHES = 20.0
"""Seconds a process may take to the place where it is to stand still."""
_LIMITS = {ENV_SIZE: "1", ENV_RATIO: "1"}
_ENDINGS = (".o", ".json", ".h", ".lock", "_pre.json", "_pre.lock")
"""What CANN keeps of an entry. Source: facts ``cann-operator-cache`` section 1.2."""


class Executor:
    """One execution, in an empty directory of its own."""

    def __init__(self, ground: Ground, directory: Path, nodes: Nodes | None = None) -> None:
        self.ground = ground
        backing, views = nodes.directory() if nodes else (directory, (directory,))
        self._shared, self._views = backing / SHARED, [each / SHARED for each in views]
        header = ground.header
        self._soc = ground.toolchain.soc
        self._directory = directory
        self._numbers = itertools.count()
        self._ranks = [directory / f"rank{number}" for number in range(header.ranks)]
        for rank in self._ranks:
            for part in ("home", "work", "out"):
                (rank / part).mkdir(parents=True)
        (directory / "faults").mkdir()
        seen = [views[header.node(rank)] for rank in range(header.ranks)]
        self._jobs = Jobs(ground.toolchain, ground.jobs, backing, seen, self._ranks)

    def carry_out(self, one: Round, writer: HistoryWriter) -> RoundRecord:
        """Do one round and write down each step of it."""
        writer.write(one)
        for disturbance in one.disturbances:
            disturb(disturbance, self._layout(disturbance.cache).soc(self._soc))
        disturbed = None
        if one.disturbances:
            harmed = sorted({each.cache for each in one.disturbances})
            disturbed = Disturbed(one.number, tuple(map(self._look, harmed)))
            writer.write(disturbed)
        before = self._snapshot()
        deliveries, ended = self._act(one)
        after = self._snapshot()
        for delivery in deliveries:
            writer.write(delivery)
        for each in ended:
            writer.write(each)
        for name in (SHARED, *(rank.name for rank in self._ranks)):
            take_down(self._layout(name).soc(self._soc))
        caches, touched = tuple(self._all_caches()), tuple(_touched(before, after))
        seen = Seen(one.number, caches, touched, *self._jobs.installed())
        writer.write(seen)
        later = None
        if one.later is not None:
            later = self._later(one.number, one.later)
            writer.write(later)
        rebuilt = None
        if one.rebuild is not None:
            rebuilt = self._jobs.rebuild(one.number, one.rebuild)
            writer.write(rebuilt)
        for rank in self._ranks:
            shutil.rmtree(rank / "out", ignore_errors=True)
            (rank / "out").mkdir(exist_ok=True)
        return RoundRecord(one, tuple(deliveries), disturbed, seen, later, tuple(ended), rebuilt)

    def again(self, one: Compile) -> Delivery:
        """One more compile in the caches as they are, which no history holds."""
        request = replace(
            self._requested(0, one), output=self._directory / f"again{next(self._numbers)}"
        )
        (result,) = self.ground.toolchain.compile_together([request])
        return _delivery(0, one, result, None)

    def job_again(self, one: Job) -> Ended:
        """The same of a job."""
        return self._jobs.do(0, 0, replace(one, fault=None))

    def _later(self, number: int, one: Compile) -> Later:
        """A compile by itself in the directory as it is, which no node remembers anything of."""
        root = self._layout(one.cache).root
        outputs = [self._ranks[one.rank] / "out" / f"{number}-{name}" for name in ("later", "last")]
        request = replace(self._requested(number, one), cache_dir=root, output=outputs[0])
        first, reused = served_later(self.ground.toolchain, request, outputs[1])
        return Later(number, first.returncode, kernel_digests(first), reused)

    def _layout(self, cache: str) -> CacheLayout:
        return CacheLayout(self._shared if cache == SHARED else self._directory / cache / "cache")

    def _view(self, one: Compile) -> Path:
        """The cache directory as the rank's node sees it."""
        shared = self._views[self.ground.header.node(one.rank)]
        return shared if one.shared else self._layout(one.cache).root

    def _all_caches(self) -> list[CacheSeen]:
        names = [SHARED, *(rank.name for rank in self._ranks)]
        return [self._look(name) for name in names if self._layout(name).soc(self._soc).is_dir()]

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
        """Every directory a rank was given; the ranks' outputs by their names alone."""
        roots = [self._shared, *self._ranks, *([self._jobs.built] if self._jobs.any else [])]
        return {root.name: Snapshot.take(root) for root in roots}

    def _act(self, one: Round) -> tuple[list[Delivery], list[Ended]]:
        """Everything that a round does at once."""
        requests = [self._requested(one.number, each) for each in one.compiles]
        with ExitStack() as gates:
            struck: list[Operation | None] = []
            for index, each in enumerate(one.compiles):
                at = self.ground.operation(each.fault) if each.fault else None
                struck.append(at)
                if each.fault is not None and at is not None:
                    plan = self._plan(each.fault.action, at, gates)
                    requests[index] = replace(requests[index], plan=plan)
            plans = [self._plan_job(one, each, gates) for each in one.jobs]
            results = self._together(requests, self._doing(one, plans))
        ended = [each for each in results if isinstance(each, Ended)]
        by_output = {each.request.output: each for each in results if not isinstance(each, Ended)}
        deliveries = [
            _delivery(one.number, compile_, by_output[request.output], at)
            for compile_, request, at in zip(one.compiles, requests, struck, strict=True)
        ]
        return deliveries, sorted(ended, key=lambda each: each.job)

    def _doing(self, one: Round, plans: Sequence[FaultPlan | None]) -> list[_Task]:
        """What does the jobs of a round."""

        def task(index: int, job: Job, plan: FaultPlan | None) -> _Task:
            gate = None if plan is None else plan.gate
            return _Task(lambda: [self._jobs.do(one.number, index, job, plan)], gate)

        return [
            task(index, job, plan)
            for index, (job, plan) in enumerate(zip(one.jobs, plans, strict=True))
        ]

    def _plan_job(self, one: Round, job: Job, gates: ExitStack) -> FaultPlan | None:
        """What is to go wrong with a job. None is held while it has a lock that others of its node
        would wait for."""
        at = self.ground.jobs.operation(job.fault)
        if job.fault is None or at is None:
            return None
        node = self.ground.header.node
        beside = [
            each
            for each in one.jobs
            if each is not job
            and each.doing in (Doing.INSTALL, Doing.UNINSTALL)
            and node(each.rank) == node(job.rank)
        ]
        if job.fault.action is Action.HOLD and beside:
            return None
        return self._plan(job.fault.action, at, gates)

    def _requested(self, number: int, one: Compile) -> CompileRequest:
        rank = self._ranks[one.rank]
        request = request_of(
            self.ground.toolchain,
            tuple(self.ground.operators[each] for each in one.operators),
            one.setting,
            one.mode,
            self._view(one),
            rank,
        )
        environment = _LIMITS if one.limited else {}
        return replace(request, output=rank / "out" / str(number), environment=environment)

    def _plan(self, action: Action, at: Operation, gates: ExitStack) -> FaultPlan:
        name = self._directory / "faults" / str(next(self._numbers))
        gate = gates.enter_context(Gate(name)) if action is Action.HOLD else None
        return FaultPlan(name.with_suffix(".log"), action, at, gate)

    def _together(
        self, requests: Sequence[CompileRequest], jobs: Sequence[_Task]
    ) -> list[CompileResult | Ended]:
        """All at once; one that is to stand still goes first, and goes on when the others ended."""

        def task(together: Sequence[CompileRequest], gate: Gate | None = None) -> _Task:
            return _Task(lambda: [*self.ground.toolchain.compile_together(together)], gate)

        held = [each for each in requests if each.plan is not None and each.plan.gate is not None]
        rest = [each for each in requests if each not in held]
        tasks = [*jobs, *(task([each], each.plan.gate) for each in held if each.plan is not None)]
        if rest:
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
    """Something that is started beside others; with a ``gate`` it stands there for a while."""

    start: Callable[[], list[CompileResult | Ended]]
    gate: Gate | None = None


def _digest(path: Path) -> str:
    try:
        return sha256(b"".join(read_quietly(path)))
    except OSError:
        return ""


def _delivery(
    number: int, compile_: Compile, result: CompileResult, at: Operation | None
) -> Delivery:
    struck = ""
    if compile_.fault is not None and at is not None:
        action = compile_.fault.action
        killed = action in (Action.KILL, Action.TEAR) and result.returncode == -9
        if killed or action is Action.HOLD:
            words = {Action.KILL: "killed before", Action.TEAR: "killed in the middle of"}
            struck = f"{words.get(action, 'made to wait before')} {at.point}"
    said = result.output.strip().splitlines()
    return Delivery(
        round=number,
        rank=compile_.rank,
        returncode=result.returncode,
        kernels=kernel_digests(result),
        struck=struck,
        said=said[-1][:200] if said and not result.succeeded else "",
    )


def _touched(before: dict[str, Snapshot], after: dict[str, Snapshot]) -> list[str]:
    """Paths that changed, by whose they are; contents that were only read did not change."""
    return [
        f"{name}/{path}"
        for name in before
        for path, change in before[name].changes(after[name]).items()
        if change is not Change.READ
    ]
