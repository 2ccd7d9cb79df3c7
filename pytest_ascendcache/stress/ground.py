"""What executions on one toolchain rest on: right kernels, and places where faults can strike."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, Capability, CompileOptions, SelectMode
from pytest_ascendcache.faults import Act, Action, FaultPlan, Operation, TraceError
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation import NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.stress.history import Fault, Header, Setting
from pytest_ascendcache.stress.jobs import NETWORKS, JobGround, prepare_jobs
from pytest_ascendcache.stress.later import served_later
from pytest_ascendcache.toolchains import (
    CompileRequest,
    CompileResult,
    Toolchain,
    ToolchainError,
)

LOCKS_SHARED = (NodeProfile.LOCAL, NodeProfile.ONE_MOUNT, NodeProfile.NFS_DEFAULT)
"""Profiles on which a lock keeps ranks of every node waiting."""

_OPTIONS = {
    Setting.PLAIN: CompileOptions(),
    Setting.PRECISION: CompileOptions(select_implmode=SelectMode.HIGH_PRECISION),
    Setting.PERFORMANCE: CompileOptions(select_implmode=SelectMode.HIGH_PERFORMANCE),
    Setting.DEBUG: CompileOptions(debug_level=1),
}


@dataclass(frozen=True)
class Ground:
    """What executions on one toolchain have in common: the header, and where faults can strike.

    ``serves_marked`` is the positive control of what is asked of a cache later.
    """

    toolchain: Toolchain
    operators: tuple[OperatorSpec, ...]
    header: Header
    points: dict[Action, tuple[Operation, ...]]
    serves_marked: bool = False
    locks_by_fcntl: bool = False
    jobs: JobGround = field(default_factory=JobGround)

    @property
    def actions(self) -> frozenset[Action]:
        """Faults that can be brought in."""
        return frozenset(action for action, points in self.points.items() if points)

    @property
    def settings(self) -> frozenset[Setting]:
        """Settings of which the right kernels are known."""
        return frozenset(map(Setting, self.header.right))

    def operation(self, fault: Fault) -> Operation | None:
        """Where a fault strikes; ``None`` where this toolchain has no such place."""
        points = self.points.get(fault.action, ())
        return points[fault.point % len(points)] if points else None


def prepare(
    toolchain: Toolchain,
    operators: tuple[OperatorSpec, ...],
    ranks: int,
    seed: int,
    directory: Path,
    nodes: Nodes | None = None,
) -> Ground:
    """Learn the right kernels from compiles no cache has a part in, and the toolchain's operations.

    Raises:
        NotDecidable: where two such compiles differ.
        ToolchainError: where one fails.
    """
    right: dict[str, tuple[str, ...]] = {}
    for setting in Setting:
        digests = _right(toolchain, operators, setting, directory / f"right-{setting.value}")
        if digests is not None:
            right[setting.value] = digests
    names = tuple(each.name or each.type for each in operators)
    where = (len(nodes.roots), nodes.profile.value) if nodes else (1, NodeProfile.LOCAL.value)
    locks_shared = where[1] in (each.value for each in LOCKS_SHARED)
    jobs = prepare_jobs(toolchain, directory / "jobs", locks_shared)
    networks = tuple(each.name for each in NETWORKS) if jobs.doings else ()
    header = Header(
        seed,
        ranks,
        names,
        f"{toolchain.name} {toolchain.version}",
        right,
        *where,
        networks=networks,
        outputs=dict(jobs.outputs),
    )
    points, by_fcntl = _points(toolchain, operators[0], directory)
    served = _serves_marked(toolchain, operators[0], directory / "marked")
    return Ground(toolchain, operators, header, points, served, by_fcntl, jobs)


def _serves_marked(toolchain: Toolchain, operator: OperatorSpec, directory: Path) -> bool:
    plain = (Setting.PLAIN, CacheMode.ENABLE, directory / "cache", directory)
    first, reused = served_later(
        toolchain, request_of(toolchain, (operator,), *plain), directory / "last"
    )
    return first.succeeded and all(reused)


def _right(
    toolchain: Toolchain, operators: tuple[OperatorSpec, ...], setting: Setting, directory: Path
) -> tuple[str, ...] | None:
    """Digests of fresh kernels; a setting that is not offered, or not repeatable, has none."""
    runs: list[tuple[str, ...]] = []
    for number in range(2):
        request = request_of(
            toolchain,
            operators,
            setting,
            CacheMode.DISABLE,
            directory / "cache",
            directory / f"{number}",
        )
        (result,) = toolchain.compile_together([request])
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
    toolchain: Toolchain,
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
    """SHA-256 of each delivered kernel, empty where there is none."""
    operators = result.request.operators
    run = Run(result, operators, Snapshot({}), Snapshot({}), None, {}, "")
    digests = []
    for operator in operators:
        try:
            digests.append(sha256(run.kernel(operator)))
        except (NotDecidable, OSError):
            digests.append("")
    return tuple(digests)


def _points(
    toolchain: Toolchain, operator: OperatorSpec, directory: Path
) -> tuple[dict[Action, tuple[Operation, ...]], bool]:
    """Where processes can be killed, torn and held: the operations of a compile that stores, of
    one that hits and of one that forces, as they were recorded; and whether it locks by fcntl."""
    if Capability.FAULT_POINTS not in toolchain.capabilities:
        return {}, False
    route, cache = toolchain.fault_route(), directory / "recorded"
    recorded: list[tuple[Operation, ...]] = []
    for number, mode in enumerate((CacheMode.ENABLE, CacheMode.ENABLE, CacheMode.FORCE)):
        plan = FaultPlan(directory / f"operations{number}")
        request = request_of(
            toolchain, (operator,), Setting.PLAIN, mode, cache, directory / "recording", plan
        )
        toolchain.compile_together([request])
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
        del points[Action.HOLD]  # behind another operation a lock may be in hand
    by_fcntl = any(each.act is Act.LOCK and each.point == "fcntl" for each in (*storing, *forcing))
    offered = {action: tuple(all_) for action, all_ in points.items() if action in route.actions}
    return offered, by_fcntl
