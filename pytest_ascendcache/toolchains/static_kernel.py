"""Static kernels: starting ``op_compiler``, packages, and clients that run networks with them.

Source: document K; facts ``static-kernel`` sections 2 to 4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.processes.launch import Launcher, ProcessLauncher, Running

_CLEANED = (
    *("ASCENDCACHE_", "GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "WORLD_"),
    *("ASCEND_OPP_PATH", "TORCHELASTIC_"),
)
"""Variables that say where packages go and who waits for whom, by their beginnings."""


class Program(str, Enum):
    """What is started. ``PACKAGE`` runs a file, a ``.run`` or an ``uninstall.sh``, as it is: the
    first argument. ``INSTALLER`` does the same where a fault is planned."""

    OP_COMPILER = "op-compiler"
    CLIENT = "aclgraph"
    PACKAGE = "package"
    INSTALLER = "installer"


@dataclass(frozen=True)
class StaticRequest:
    """One process: a program, its arguments, and its surroundings.

    ``environment`` comes on top of a cleaned one; ``opp`` becomes ``ASCEND_OPP_PATH``. ``second``
    is how many true seconds one second of waiting for other cards lasts. ``plan`` is what is to
    go wrong (``Toolchain.fault_route``).
    """

    program: Program
    arguments: tuple[str, ...]
    work: Path
    opp: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    second: float = 1.0
    plan: FaultPlan | None = None


PackageStarter = Callable[[Sequence[str], Mapping[str, str], Path], Running | None]
"""Starts a package (its path, then its arguments) in an environment and a working directory;
``None`` where it has to be executed."""


@dataclass(frozen=True)
class StaticResult(ProcessResult):
    """How a process ended; ``returncode`` is negative for a signal and ``None`` where the
    deadline (seconds) passed and its group was killed."""

    request: StaticRequest
    argv: tuple[str, ...]
    returncode: int | None
    deadline: float
    output: str
    left_behind: int

    @property
    def work(self) -> Path:
        """The directory it ran in."""
        return self.request.work

    @property
    def settings(self) -> Mapping[str, str]:
        """What was added to its environment."""
        opp = self.request.opp
        installed = {} if opp is None else {"ASCEND_OPP_PATH": str(opp)}
        return {**self.request.environment, **installed}


@dataclass(frozen=True)
class StaticProcess:
    """One process that was started. Every one has to be waited for."""

    request: StaticRequest
    argv: tuple[str, ...]
    running: Running
    deadline: float

    def kill(self) -> None:
        """``kill -9`` it and its children now."""
        self.running.kill()

    def wait(self, deadline: float | None = None) -> StaticResult:
        """Wait for its end; after ``deadline`` seconds its process group is killed."""
        patience = self.deadline if deadline is None else deadline
        ended = self.running.wait(time.monotonic() + patience)
        return StaticResult(
            self.request, self.argv, ended.returncode, patience, ended.output, ended.left_behind
        )


def start_static(
    launcher: Launcher,
    request: StaticRequest,
    base: Mapping[str, str],
    deadline: float,
    route: FaultRoute | None,
    packages: PackageStarter | None = None,
) -> StaticProcess:
    """Start one process; ``route`` carries out its plan, if it has one. ``packages`` may know a
    quicker way to start a package than to execute it.

    Raises:
        ToolchainError: where it cannot be started.
    """
    request.work.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in base.items() if not key.startswith(_CLEANED)}
    if request.program is Program.OP_COMPILER and "ASCEND_OPP_PATH" in base:
        environment["ASCEND_OPP_PATH"] = base["ASCEND_OPP_PATH"]  # the compiler's own parts
    if request.opp is not None:
        environment["ASCEND_OPP_PATH"] = str(request.opp)
    if request.program in (Program.PACKAGE, Program.INSTALLER):
        environment["ASCENDCACHE_PACKAGE_HOLDER"] = "0"  # the reference's: for no process
    environment.update(request.environment)
    if request.second != 1.0:
        environment["ASCENDCACHE_TRAIN_SECOND"] = repr(request.second)
    program, arguments = request.program.value, list(request.arguments)
    if request.plan is not None and route is not None:
        program, arguments = route.command(request.plan, program, arguments)
    elif request.program is Program.PACKAGE:
        running = packages(arguments, environment, request.work) if packages is not None else None
        program = arguments.pop(0)
        launcher = ProcessLauncher({})
        if running is not None:
            return StaticProcess(request, launcher.argv(program, arguments), running, deadline)
    running = launcher.start(program, arguments, environment, request.work, None)
    return StaticProcess(request, launcher.argv(program, arguments), running, deadline)
