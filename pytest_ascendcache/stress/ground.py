"""Prepares a toolchain for stress: records right kernels, and where faults can strike.

:func:`served_later` shows whether a cache is usable, before a run and after its rounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_ascendcache.caches import (
    CacheLayout,
    Entry,
    Snapshot,
    find_canaries,
    plant_canary,
    read_entries,
)
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, Capability, CompileOptions, SelectMode
from pytest_ascendcache.faults import Act, Action, FaultPlan, Operation, TraceError
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation import NotDecidable, Run
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.stress.history import Header, Setting
from pytest_ascendcache.stress.jobs import NETWORKS, JobGround, prepare_jobs
from pytest_ascendcache.toolchains import CompileRequest, CompileResult, Toolchain, ToolchainError

LOCKS_SHARED = (NodeProfile.LOCAL, NodeProfile.ONE_MOUNT, NodeProfile.NFS_DEFAULT)
"""Profiles on which ranks of all nodes wait for a lock."""

_OPTIONS = {
    Setting.PLAIN: CompileOptions(),
    Setting.PRECISION: CompileOptions(select_implmode=SelectMode.HIGH_PRECISION),
    Setting.PERFORMANCE: CompileOptions(select_implmode=SelectMode.HIGH_PERFORMANCE),
    Setting.DEBUG: CompileOptions(debug_level=1),
}


@dataclass(frozen=True)
class Ground:
    """What all executions on one toolchain share. ``serves_marked`` is the positive control: the
    toolchain reuses marked entries."""

    toolchain: Gate
    operators: tuple[OperatorSpec, ...]
    header: Header
    points: dict[Action, tuple[Operation, ...]]
    serves_marked: bool = False
    locks_by_fcntl: bool = False
    jobs: JobGround = field(default_factory=JobGround)

    @property
    def actions(self) -> frozenset[Action]:
        """The faults that can be injected."""
        return frozenset(action for action, points in self.points.items() if points)

    @property
    def settings(self) -> frozenset[Setting]:
        """The settings whose right kernels are known."""
        return frozenset(map(Setting, self.header.right))


def prepare(
    toolchain: Toolchain,
    operators: tuple[OperatorSpec, ...],
    ranks: int,
    seed: int,
    directory: Path,
    nodes: Nodes | None = None,
) -> Ground:
    """Record the right kernels, by compiles without a cache, and the toolchain's file operations.

    Raises ``NotDecidable`` if two such compiles deliver different kernels, and ``ToolchainError``
    if a compile fails.
    """
    gate = Gate.of(toolchain)
    right: dict[str, tuple[str, ...]] = {}
    for setting in Setting:
        digests = _right(gate, operators, setting, directory / f"right-{setting.value}")
        if digests is not None:
            right[setting.value] = digests
    names = tuple(each.name or each.type for each in operators)
    profile = nodes.profile if nodes else NodeProfile.LOCAL
    jobs = prepare_jobs(gate, directory / "jobs", profile in LOCKS_SHARED)
    header = Header(
        seed,
        ranks,
        names,
        f"{gate.name} {gate.version}",
        right,
        len(nodes.roots) if nodes else 1,
        profile.value,
        networks=tuple(each.name for each in NETWORKS) if jobs.doings else (),
        outputs=dict(jobs.outputs),
    )
    points, by_fcntl = _points(gate, operators[0], directory)
    places = directory / "marked" / "cache", directory / "marked"
    request = request_of(gate, operators[:1], Setting.PLAIN, CacheMode.ENABLE, *places)
    first, reused = served_later(gate, request, directory / "marked" / "last")
    served = first.succeeded and all(reused)
    return Ground(gate, operators, header, points, served, by_fcntl, jobs)


def _right(
    toolchain: Gate, operators: tuple[OperatorSpec, ...], setting: Setting, directory: Path
) -> tuple[str, ...] | None:
    """Digests of fresh kernels, or None if the setting is not offered or its kernels vary."""
    runs: list[tuple[str, ...]] = []
    for number in range(2):
        places = directory / "cache", directory / f"{number}"
        request = request_of(toolchain, operators, setting, CacheMode.DISABLE, *places)
        result = toolchain.compiled([request])[0].result
        if not result.succeeded:
            if setting is Setting.PLAIN:
                raise ToolchainError(f"a plain compile {result.ending}: {result.output[-300:]}")
            return None
        runs.append(kernel_digests(result))
    if runs[0] == runs[1]:
        return runs[0]
    if setting is Setting.PLAIN:
        raise NotDecidable("two fresh compiles give different kernels")
    return None


def request_of(
    toolchain: Gate,
    operators: tuple[OperatorSpec, ...],
    setting: Setting,
    mode: CacheMode,
    cache: Path,
    directory: Path,
    plan: FaultPlan | None = None,
) -> CompileRequest:
    """A compile whose output, working directory and home are below ``directory``."""
    return CompileRequest(
        operators=operators,
        options=_OPTIONS[setting].but(cache_mode=mode, soc=toolchain.soc),
        cache_dir=cache,
        output=directory / "out",
        work=directory / "work",
        home=directory / "home",
        plan=plan,
    )


def kernel_digests(result: CompileResult) -> tuple[str, ...]:
    """SHA-256 of each delivered kernel, empty for one that is missing."""
    return tuple("" if each is None else sha256(each) for each in _kernels_of(result))


def served_later(
    toolchain: Gate, request: CompileRequest, output: Path
) -> tuple[CompileResult, tuple[bool, ...]]:
    """Compile, mark every valid entry, compile again into ``output``, and remove the markers.
    Returns the first result, and of each operator whether its entry was reused."""
    first = toolchain.compiled([request])[0].result
    if not first.succeeded:
        return first, (False,) * len(request.operators)
    assert request.cache_dir is not None
    with ExitStack() as restoring:
        for entry in read_entries(CacheLayout(request.cache_dir).soc(toolchain.soc)).values():
            if entry.is_valid:
                restoring.enter_context(_restored(entry))
                plant_canary(entry)
        second = toolchain.compiled([replace(request, output=output)])[0].result
    return first, tuple(bool(find_canaries(each or b"")) for each in _kernels_of(second))


def _kernels_of(result: CompileResult) -> list[bytes | None]:
    """Each kernel that a compile delivered, None for one that is missing."""
    operators = result.request.operators
    run = Run(result, operators, Snapshot({}), Snapshot({}), None, {}, "")
    kernels: list[bytes | None] = []
    for operator in operators:
        try:
            kernels.append(run.kernel(operator))
        except (NotDecidable, OSError):
            kernels.append(None)
    return kernels


@contextmanager
def _restored(entry: Entry) -> Iterator[None]:
    """Restore an entry's files at the end, unless a compile replaced or removed them."""
    files = (entry.object_path, entry.metadata_path)
    before = {path: (path.stat(), path.read_bytes()) for path in files}
    try:
        yield
    finally:
        is_marked = find_canaries(Entry(entry.stem, entry.directory).object_bytes or b"")
        for path, (state, data) in before.items() if is_marked else ():
            if path.exists():
                path.write_bytes(data)
                os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _points(
    toolchain: Gate, operator: OperatorSpec, directory: Path
) -> tuple[dict[Action, tuple[Operation, ...]], bool]:
    """The operations at which a compile that stores, reuses or forces can be killed, torn or held,
    and whether it locks by fcntl."""
    if Capability.FAULT_POINTS not in toolchain.capabilities:
        return {}, False
    route, cache = toolchain.fault_route(), directory / "recorded"
    recorded: list[tuple[Operation, ...]] = []
    for number, mode in enumerate((CacheMode.ENABLE, CacheMode.ENABLE, CacheMode.FORCE)):
        plan = FaultPlan(directory / f"operations{number}")
        request = request_of(
            toolchain, (operator,), Setting.PLAIN, mode, cache, directory / "recording", plan
        )
        toolchain.compiled([request])
        try:
            recorded.append(route.operations(plan, cache))
        except TraceError as error:
            raise NotDecidable(str(error)) from None
    storing, hitting, forcing = recorded
    changing = [each for each in (*storing, *forcing) if each.act.changes]
    # A process may be held before it takes a lock, or in a run that takes none, but never while it
    # has one: all others would wait.
    free = [each for each in hitting if not any(one.act is Act.LOCK for one in hitting)]
    points = {
        Action.KILL: changing,
        Action.TEAR: [each for each in changing if each.act is Act.WRITE],
        Action.HOLD: [*free, *(each for each in forcing if each.act is Act.LOCK)],
    }
    if route.holds_behind:
        del points[Action.HOLD]  # behind an operation it may already have the lock
    by_fcntl = any(each.act is Act.LOCK and each.point == "fcntl" for each in (*storing, *forcing))
    offered = {action: tuple(all_) for action, all_ in points.items() if action in route.actions}
    return offered, by_fcntl
