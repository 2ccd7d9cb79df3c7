"""Static kernels: starting ``op_compiler``, packages, and clients that run networks with them.

Source: document K; facts ``static-kernel`` sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.processes.hosts import in_a_container
from pytest_ascendcache.processes.launch import Command, Launcher, ProcessLauncher, Running
from pytest_ascendcache.processes.sleeping import UNWATCHED, wait_its_time

_CLEANED = (
    *("ASCENDCACHE_", "GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "WORLD_"),
    *("ASCEND_OPP_PATH", "TORCHELASTIC_"),
)
"""Prefixes of variables that decide where packages go and which cards wait for each other."""


class Program(str, Enum):
    """What is started. ``PACKAGE`` executes its first argument, a ``.run`` file or an
    ``uninstall.sh``. ``INSTALLER`` does the same, and faults can be injected into it."""

    OP_COMPILER = "op-compiler"
    CLIENT = "aclgraph"
    PACKAGE = "package"
    INSTALLER = "installer"


@dataclass(frozen=True)
class StaticRequest:
    """One process: a program, its arguments and its surroundings.

    ``environment`` is added to a cleaned environment; ``opp`` becomes ``ASCEND_OPP_PATH``.
    ``second`` is the real duration, in seconds, of one second of waiting for other cards. ``plan``
    is the fault to inject (``Toolchain.fault_route``). ``umask`` of None is inherited.
    ``unprivileged`` takes root's rights over files of other users from the process. In a container
    it sees no process of this host.
    """

    program: Program
    arguments: tuple[str, ...]
    work: Path
    opp: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    second: float = 1.0
    plan: FaultPlan | None = None
    umask: int | None = None
    unprivileged: bool = False
    in_a_container: bool = False


PackageStarter = Callable[[Sequence[str], Mapping[str, str], Path], Running | None]
"""Starts a package (its path, then its arguments) in an environment and a working directory.
Returns None if the package has to be executed."""


@dataclass(frozen=True)
class StaticResult(ProcessResult):
    """How a process ended. ``returncode`` is negative for a signal, and None if the process group
    was killed at the ``deadline`` (seconds)."""

    request: StaticRequest
    left_behind: int

    @property
    def settings(self) -> Mapping[str, str]:
        opp = self.request.opp
        installed = {} if opp is None else {"ASCEND_OPP_PATH": str(opp)}
        return {**self.request.environment, **installed}


@dataclass(frozen=True)
class StaticProcess:
    """One started process. It must be waited for."""

    request: StaticRequest
    argv: tuple[str, ...]
    running: Running
    deadline: float

    def kill(self) -> None:
        """``kill -9`` the process and its children."""
        self.running.kill()

    def wait(self, deadline: float | None = None) -> StaticResult:
        """Wait for the process to end; after ``deadline`` seconds in which it slept or had a
        processor kill its process group."""
        patience = self.deadline if deadline is None else deadline
        ended, _ = wait_its_time(self.running, patience, unwatched=UNWATCHED)
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
    """Start one process. ``route`` carries out the request's plan; ``packages`` may start a package
    faster than by executing it. Raises ``ToolchainError`` if it cannot be started."""
    request.work.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in base.items() if not key.startswith(_CLEANED)}
    if request.program is Program.OP_COMPILER and "ASCEND_OPP_PATH" in base:
        # The compiler finds its own parts there.
        environment["ASCEND_OPP_PATH"] = base["ASCEND_OPP_PATH"]
    if request.opp is not None:
        environment["ASCEND_OPP_PATH"] = str(request.opp)
    if request.program in (Program.PACKAGE, Program.INSTALLER):
        # It tells the reference that no process holds the package.
        environment["ASCENDCACHE_PACKAGE_HOLDER"] = "0"
    environment.update(request.environment)
    if request.second != 1.0:
        environment["ASCENDCACHE_TRAIN_SECOND"] = repr(request.second)
    program, arguments = request.program.value, list(request.arguments)
    if request.plan is not None and route is not None:
        program, arguments = route.command(request.plan, program, arguments)
    elif request.program is Program.PACKAGE:
        forks = request.umask is None and not request.unprivileged
        running = packages(arguments, environment, request.work) if packages and forks else None
        program = arguments.pop(0)
        launcher = ProcessLauncher({})
        if running is not None:
            return StaticProcess(request, launcher.argv(program, arguments), running, deadline)
    if request.in_a_container:
        program, *arguments = in_a_container(launcher.argv(program, arguments))
        launcher = ProcessLauncher({})
    of_it = (request.work, request.umask, request.unprivileged)
    running = launcher.start(Command(program, arguments, environment, *of_it))
    return StaticProcess(request, launcher.argv(program, arguments), running, deadline)
