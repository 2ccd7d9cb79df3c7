"""What ranks do besides compiling operators: install static packages, run networks, build them.

Packages go into an operator package that all ranks share; networks' kernels go into per-rank
directories that all nodes see. :func:`prepare_jobs` compiles the packages and records the right
outputs; :class:`Jobs` runs jobs and inspects what they leave.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import InstalledKernels, Snapshot, TornIndex
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import Act, Action, FaultPlan, Operation
from pytest_ascendcache.observation import StaticKernelsUnderTest, probe_network
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.stress.history import Doing, Fault, JobEnd, Rebuilt, StressJob
from pytest_ascendcache.toolchains import (
    CompileResult,
    StaticResult,
    ToolchainError,
    TrainRequest,
    TrainResult,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

NETWORKS = (
    probe_network("Square", "Exp", name="net_0"),
    probe_network("Abs", name="net_1"),
    probe_network("Neg", "Exp", name="net_2"),
)
"""The networks that jobs run and build. Each has a package; two have an operator in common."""

OPP, BUILD = "opp", "build"
"""Directories next to the shared cache: the operator package, and the ranks' kernels."""


@dataclass(frozen=True)
class JobGround:
    """What jobs need: the ``packages`` of the networks and the ``keys`` that each installs; the
    right ``outputs`` for each kind of job; the ``points`` at which a fault can strike an installer.
    """

    packages: tuple[Path, ...] = ()
    keys: tuple[frozenset[tuple[str, str]], ...] = ()
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    points: Mapping[Action, tuple[Operation, ...]] = field(default_factory=dict)
    kernels: StaticKernelsUnderTest | None = None

    @property
    def doings(self) -> frozenset[Doing]:
        """The kinds of job that this toolchain can do and that can be judged."""
        installing = (Doing.INSTALL, Doing.UNINSTALL) if self.packages else ()
        return frozenset((*installing, *map(Doing, self.outputs)))


def operation_at(
    points: Mapping[Action, Sequence[Operation]], fault: Fault | None
) -> Operation | None:
    """The operation that a fault strikes, or None if its action has no points."""
    suitable = points.get(fault.action, ()) if fault else ()
    return suitable[fault.point % len(suitable)] if fault and suitable else None


_STRUCK = {
    Action.KILL: "killed before",
    Action.TEAR: "killed in the middle of",
    Action.HOLD: "made to wait before",
}


def ending_of(
    result: CompileResult | StaticResult | TrainResult, plan: FaultPlan | None
) -> tuple[str, str]:
    """Where the planned fault struck a process, and the last line printed by one that failed, or
    empty texts."""
    struck = ""
    if plan and plan.at and (plan.action is Action.HOLD or result.returncode == -9):
        struck = f"{_STRUCK[plan.action]} {plan.at.point}"
    lines = result.output.strip().splitlines()
    return struck, lines[-1][:200] if lines and not result.succeeded else ""


def prepare_jobs(toolchain: Gate, directory: Path, waits: bool) -> JobGround:
    """Compile the packages, and record the right outputs of clients and ranks.

    With ``waits``, processes on all nodes wait for each other's locks, so no process is ever held
    while it has one. Raises ``ToolchainError`` if any of this fails although nothing else is
    running.
    """
    offered = toolchain.capabilities
    outputs: dict[str, tuple[str, ...]] = {}
    if Capability.INCREMENTAL_BUILD in offered:
        outputs[Doing.BUILD.value] = _repeatable(
            [_build(toolchain, directory / f"build{turn}") for turn in range(2)]
        )
    made = JobGround()
    if Capability.OP_COMPILER in offered:
        (directory / "shelf").mkdir(parents=True)
        (directory / "kernels").mkdir()
        kernels = StaticKernelsUnderTest(toolchain, directory / "kernels", directory / "shelf")
        packages = tuple(kernels.package(*each.operators) for each in NETWORKS)
        keys = tuple(frozenset(kernels.alone(each)) for each in packages)
        points = _points(kernels, packages[0], waits)
        made = JobGround(packages, keys, outputs, points, kernels)
        if Capability.STATIC_KERNEL_CLIENT in offered:
            without = tuple(_run(kernels, number, directory) for number in range(len(NETWORKS)))
            kernels.install(*packages)
            installed = tuple(_run(kernels, number, kernels.opp) for number in range(len(NETWORKS)))
            outputs[Doing.RUN.value] = _repeatable([without, installed])
    return replace(made, outputs={name: each for name, each in outputs.items() if each})


def _repeatable(runs: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The outputs of all runs, or nothing if they differ."""
    return runs[0] if len(set(runs)) == 1 else ()


def _build(toolchain: Gate, directory: Path) -> tuple[str, ...]:
    digests = []
    for number, network in enumerate(NETWORKS):
        request = TrainRequest(
            network,
            directory / f"out{number}",
            directory / "work",
            {"MS_COMPILER_CACHE_PATH": str(directory / "cache"), "RANK_ID": "0"},
        )
        result = toolchain.rank(request).ended().result
        if not result.succeeded:
            raise ToolchainError(f"the rank {result.failure}")
        digests.append(_digest(result.outputs))
    return tuple(digests)


def _run(kernels: StaticKernelsUnderTest, number: int, opp: Path) -> str:
    request = kernels.client(NETWORKS[number], static=False, opp=opp)
    (run,) = kernels.together(request)
    if not run.succeeded:
        raise ToolchainError(f"a client {run.result.failure}")
    return _digest(run.outputs())


def _points(
    kernels: StaticKernelsUnderTest, package: Path, waits: bool
) -> dict[Action, tuple[Operation, ...]]:
    if Capability.FAULT_POINTS not in kernels.toolchain.capabilities:
        return {}
    opp = kernels.directory("recorded")
    operations = kernels.interruption(package, "install", opp).holdable
    changing = tuple(each for each in operations if each.act.changes)
    locks = [each.number for each in operations if each.act is Act.LOCK]
    held = [each for each in changing if not (waits and locks and each.number > locks[0])]
    route = kernels.toolchain.fault_route()
    points = {Action.KILL: changing, Action.HOLD: tuple(held)}
    return {action: all_ for action, all_ in points.items() if action in route.actions and all_}


def _digest(outputs: Mapping[str, NDArray[Any]] | None) -> str:
    """SHA-256 of all outputs with their names, or empty without outputs."""
    if outputs is None:
        return ""
    digest = hashlib.sha256()
    for name in sorted(outputs):
        digest.update(f"{name} {outputs[name].dtype} {outputs[name].shape} ".encode())
        digest.update(outputs[name].tobytes())
    return digest.hexdigest()


@dataclass
class Jobs:
    """Runs jobs. ``backing`` is the shared directory itself; ``views`` has it as each rank sees it,
    ``own`` the ranks' private directories. Ranks keep their kernels in ``built``."""

    toolchain: Gate
    ground: JobGround
    backing: Path
    views: Sequence[Path]
    own: Sequence[Path]
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.built = self.backing / BUILD
        if self.ground.doings:
            for name in (OPP, BUILD):
                (self.backing / name).mkdir()

    def do(self, number: int, index: int, job: StressJob, plan: FaultPlan | None = None) -> JobEnd:
        """Run job ``index`` of round ``number``, and wait for it to end."""
        result, outputs = self._done(job, self.views[job.rank], plan)
        return JobEnd(number, index, result.returncode, outputs, *ending_of(result, plan))

    def rebuild(self, number: int, job: StressJob) -> Rebuilt:
        """Build a network twice with nothing else running, in the shared directory itself, where
        no node's caching is in the way."""
        first, outputs = self._done(job, self.backing, None)
        before = Snapshot.take(self.built)
        self._done(job, self.backing, None)
        changes = before.disturbed(Snapshot.take(self.built))
        # A toolchain may write files of its own in each run; a kernel's have an object beside them.
        written = tuple(
            path
            for path in sorted(changes)
            if not path.endswith(".lock") and (self.built / path).with_suffix(".o").exists()
        )
        return Rebuilt(number, first.returncode, outputs, written)

    def installed(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The networks whose packages are installed, and what is wrong with the shared index."""
        if not self.ground.packages:
            return (), ()
        installed = InstalledKernels(self.backing / OPP)
        names = [each.stem for each in self.ground.packages]
        packages = tuple(index for index, name in enumerate(names) if name in installed.packages)
        try:
            index = installed.index()
        except TornIndex as error:
            return packages, (f"the index is torn: {error}",)
        wanted = frozenset().union(*(self.ground.keys[each] for each in packages))
        wrong = [f"the index lacks {key}" for _, key in sorted(wanted - set(index))]
        for (kind, key), entry in index.items():
            owner = str(entry["binPath"]).partition("/")[0]
            if (kind, key) not in wanted or owner not in installed.packages:
                wrong.append(f"the index has {key} of {owner}, which is not installed")
            else:
                wrong += installed.problems(entry)
        return packages, tuple(wrong)

    def _done(
        self, job: StressJob, view: Path, plan: FaultPlan | None
    ) -> tuple[StaticResult | TrainResult, str]:
        """Run a job in a view of the shared directory. Returns its result and outputs."""
        directory = self.own[job.rank] / "out" / f"job{next(self._numbers)}"
        if job.doing is Doing.BUILD:
            settings = {"MS_COMPILER_CACHE_PATH": str(view / BUILD), "RANK_ID": str(job.of)}
            work = self.own[job.rank] / "work"
            request = TrainRequest(NETWORKS[job.number], directory, work, settings)
            built = self.toolchain.rank(request).ended().result
            return built, _digest(built.outputs)
        kernels = self.ground.kernels
        assert kernels is not None
        if job.doing is Doing.RUN:
            client = kernels.client(NETWORKS[job.number], static=False, opp=view / OPP)
            run = kernels.observed(client, self.toolchain.static(client.request).wait())
            outputs = _digest(run.outputs())
            shutil.rmtree(client.directory, ignore_errors=True)
            return run.result, outputs
        package = self.ground.packages[job.number]
        if job.doing is Doing.INSTALL and plan is None:
            starting = kernels.installation(package, view / OPP)
        else:
            starting = replace(kernels.installer(package, job.doing.value, view / OPP), plan=plan)
        return self.toolchain.static(starting).wait(), ""
