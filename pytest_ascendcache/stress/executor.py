"""Carries rounds out on a toolchain, below one directory, and says what came of them.

Each rank has ``rank<N>/`` with a ``cache``, a ``home``, a ``work`` and an ``out`` directory of its
own; ``shared/`` is everybody's cache, which each rank sees as its node does. Kernels are compared
byte by byte; only for the compile that is by itself are entries marked, and put back.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
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
    EntrySeen,
    HistoryWriter,
    Later,
    Round,
    RoundRecord,
    Seen,
)
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
        self._soc = ground.toolchain.soc
        self._directory = directory
        self._numbers = itertools.count()
        self._ranks = [directory / f"rank{number}" for number in range(ground.header.ranks)]
        for rank in self._ranks:
            for part in ("home", "work", "out"):
                (rank / part).mkdir(parents=True)
        (directory / "faults").mkdir()

    def carry_out(self, one: Round, writer: HistoryWriter) -> RoundRecord:
        """Do one round and write down each step of it."""
        writer.write(one)
        for disturbance in one.disturbances:
            disturb(disturbance, self._layout(disturbance.cache).soc(self._soc))
        disturbed = None
        if one.disturbances:
            caches = sorted({each.cache for each in one.disturbances})
            disturbed = Disturbed(one.number, tuple(map(self._look, caches)))
            writer.write(disturbed)
        before = self._snapshot()
        deliveries = self._compile(one)
        after = self._snapshot()
        for delivery in deliveries:
            writer.write(delivery)
        for name in (SHARED, *(rank.name for rank in self._ranks)):
            take_down(self._layout(name).soc(self._soc))
        seen = Seen(one.number, tuple(self._all_caches()), tuple(_touched(before, after)))
        writer.write(seen)
        later = None
        if one.later is not None:
            later = self._later(one.number, one.later)
            writer.write(later)
        for rank in self._ranks:
            shutil.rmtree(rank / "out", ignore_errors=True)
            (rank / "out").mkdir(exist_ok=True)
        return RoundRecord(one, tuple(deliveries), disturbed, seen, later)

    def again(self, one: Compile) -> Delivery:
        """One more compile in the caches as they are, which no history holds."""
        request = replace(
            self._requested(0, one), output=self._directory / f"again{next(self._numbers)}"
        )
        (result,) = self.ground.toolchain.compile_together([request])
        return _delivery(0, one, result, None)

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
        return {root.name: Snapshot.take(root) for root in (self._shared, *self._ranks)}

    def _compile(self, one: Round) -> list[Delivery]:
        requests = [self._requested(one.number, each) for each in one.compiles]
        with ExitStack() as gates:
            struck: list[Operation | None] = []
            for index, each in enumerate(one.compiles):
                at = self.ground.operation(each.fault) if each.fault else None
                struck.append(at)
                if each.fault is not None and at is not None:
                    plan = self._plan(each.fault.action, at, gates)
                    requests[index] = replace(requests[index], plan=plan)
            results = self._together(requests)
        return [
            _delivery(one.number, *each) for each in zip(one.compiles, results, struck, strict=True)
        ]

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

    def _together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """All at once; one that is to stand still goes first, and goes on when the others ended."""
        held = [each for each in requests if each.plan is not None and each.plan.gate is not None]
        compile_ = self.ground.toolchain.compile_together
        if not held:
            return compile_(requests)
        results: dict[int, Future[list[CompileResult]]] = {}
        with ThreadPoolExecutor(len(held) + 1) as pool:
            try:
                for each in held:
                    results[id(each)] = pool.submit(compile_, [each])
                deadline = time.monotonic() + _REACHES
                for each in held:
                    assert each.plan is not None
                    assert each.plan.gate is not None
                    each.plan.gate.wait(deadline)
                rest = [each for each in requests if id(each) not in results]
                others = pool.submit(compile_, rest)
                wait([others], _HELD)
            finally:
                for each in held:
                    if each.plan is not None and each.plan.gate is not None:
                        each.plan.gate.release()
            ended = iter(others.result())
            return [
                results[id(each)].result()[0] if id(each) in results else next(ended)
                for each in requests
            ]


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
