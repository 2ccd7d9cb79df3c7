"""Running networks: one process for each rank, with a command like the reference's
``ascendcache-train``.

Source: document M; facts ``mindspore-incremental``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.operators.network import Network, write_network
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.processes.launch import Command, Launcher, Running
from pytest_ascendcache.processes.sleeping import wait_its_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLEANED = ("ASCENDCACHE_", "DEVICE_", "HCCL_", "LOCAL_RANK", "MASTER_", "MS_", "RANK_", "WORLD_")
"""Prefixes of variables that decide where kernels are kept and which ranks wait for each other."""


@dataclass(frozen=True)
class Script:
    """How a user's script runs its network, for toolchains whose users write scripts.

    ``before`` are networks that the same process runs first. ``module`` puts the networks' code in
    a module that is imported at the top of the script, ``late_import`` in one that is imported
    inside a function. ``held`` are ranks of a gang that stop before they run the network, each with
    the directory of a :class:`~pytest_ascendcache.faults.Gate`, where they also write their process
    id to ``pid``; with ``held_late`` they run ``before`` first. ``fresh`` starts a new process even
    if others are forked from one that has loaded the toolchain. ``dropout`` passes the first input
    through a Dropout, which changes it only in training (``TrainRequest.phase``); training leaves
    no outputs. ``jit_level`` is the optimization level. ``later`` are variables that the process
    sets after it has run ``before``, ``of_rank`` those that a rank of a gang sets before it
    compiles anything. Only ``dropout`` shows in the script's text.
    """

    before: tuple[Network, ...] = ()
    module: bool = False
    late_import: bool = False
    held: tuple[tuple[int, Path], ...] = ()
    held_late: bool = False
    fresh: bool = False
    dropout: bool = False
    jit_level: str = ""
    later: tuple[tuple[str, str], ...] = ()
    of_rank: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()


@dataclass(frozen=True)
class TrainRequest:
    """A network and the directories of its run.

    ``directory`` is for the network's file and its outputs, ``work`` the working directory.
    ``environment`` (``RANK_ID``, ...) is added to a cleaned environment. A ``phase`` of None leaves
    the option out. ``second`` is the real duration, in seconds, of one second of waiting for other
    ranks; any value but 1 needs ``Capability.REHEARSED_WAITS``. ``file`` replaces the network's
    file and is not checked. ``plan`` is the fault to inject (``Toolchain.fault_route``). A
    ``umask`` of None is inherited. ``script`` describes the script, for toolchains that run one.
    ``unprivileged`` takes root's rights over the files of other users from the process.
    """

    network: Network
    directory: Path
    work: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    phase: Phase | None = None
    second: float = 1.0
    file: Path | None = None
    plan: FaultPlan | None = None
    umask: int | None = None
    script: Script = Script()
    unprivileged: bool = False

    def command(
        self, program: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> Command:
        """What to start for it."""
        of_it = (self.work, self.umask, self.unprivileged)
        return Command(program, arguments, environment, *of_it)


@dataclass(frozen=True)
class TrainResult(ProcessResult):
    """How one rank ended and what its network delivered.

    ``returncode`` is negative for a signal, and None if the process group was killed at the
    ``deadline`` (seconds). ``outputs`` are arrays by tensor name, or None. ``left_behind`` counts
    processes that outlived the rank and were killed. ``claimed`` is how many kernels the toolchain
    says it compiled, if it does; no verdict rests on it. ``asleep`` are the seconds in which the
    rank used no processor.
    """

    request: TrainRequest
    outputs: Mapping[str, NDArray[Any]] | None
    left_behind: int
    claimed: int | None = None
    asleep: float = 0.0

    @property
    def missing(self) -> str:
        """What the rank failed to do, in words."""
        return "gave no outputs" if self.outputs is None else ""


@dataclass(frozen=True)
class RankProcess:
    """One started rank. It must be waited for. After ``sleep`` seconds without any processor time
    the rank counts as hanging; None if it may wait for other ranks."""

    request: TrainRequest
    argv: tuple[str, ...]
    running: Running
    deadline: float
    claims: Callable[[str], int | None] = lambda _: None
    sleep: float | None = None

    def kill(self) -> None:
        """``kill -9`` the rank and its children."""
        self.running.kill()

    def wait(
        self, deadline: float | None = None, beside: Sequence[RankProcess] = ()
    ) -> TrainResult:
        """Wait for the rank to end; after ``deadline`` seconds kill its process group. A rank that
        waits for others does not count as hanging while one of those ``beside`` it works."""
        patience = self.deadline if deadline is None else deadline
        others = [each.running for each in beside]
        sleep = math.inf if self.sleep is None or patience <= self.sleep else self.sleep
        ended, asleep = wait_its_time(self.running, patience, sleep, others)
        return TrainResult(
            request=self.request,
            argv=self.argv,
            returncode=ended.returncode,
            deadline=patience,
            output=ended.output,
            outputs=read_outputs(self.request.directory / "outputs.npz"),
            left_behind=ended.left_behind,
            claimed=self.claims(ended.output),
            asleep=asleep,
        )


def start_rank(
    launcher: Launcher,
    request: TrainRequest,
    base: Mapping[str, str],
    deadline: float,
    route: FaultRoute,
) -> RankProcess:
    """Start the program ``train`` for one rank. ``route`` carries out the request's plan. Raises
    ``ToolchainError`` if it cannot be started."""
    for directory in (request.directory, request.work):
        directory.mkdir(parents=True, exist_ok=True)
    file = request.file
    if file is None:
        file = request.directory / "network.json"
        write_network(file, request.network)
    arguments = [str(file), f"--outputs={request.directory / 'outputs.npz'}"]
    if request.phase is not None:
        arguments.append(f"--phase={request.phase.value}")
    environment = {key: value for key, value in base.items() if not key.startswith(CLEANED)}
    environment.update(request.environment)
    if request.second != 1.0:
        environment["ASCENDCACHE_TRAIN_SECOND"] = repr(request.second)
    program = "train"
    if request.plan is not None:
        program, arguments = route.command(request.plan, program, arguments)
    running = launcher.start(request.command(program, arguments, environment))
    return RankProcess(request, launcher.argv(program, arguments), running, deadline)


def read_outputs(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays in an ``.npz`` file, or None if there is none that can be read."""
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError):
        return None
