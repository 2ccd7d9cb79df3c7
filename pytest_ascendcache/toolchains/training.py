"""Running networks: one rank's process, with a command like the reference's ``ascendcache-train``.

Source: document M; facts ``mindspore-incremental``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.operators.network import Network, write_network
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.processes.launch import Launcher, Running
from pytest_ascendcache.processes.sleeping import ends_or_sleeps

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLEANED = ("ASCENDCACHE_", "DEVICE_", "HCCL_", "LOCAL_RANK", "MASTER_", "MS_", "RANK_", "WORLD_")
"""Variables that change where kernels are kept and who waits for whom, by their beginnings."""


@dataclass(frozen=True)
class Script:
    """How a user's script says what it runs, for toolchains whose users write scripts.

    ``before`` are networks the same process runs first; ``late_import`` puts the networks' code
    in a module that is imported inside a function, ``module`` in one imported as usual.
    ``held`` are ranks of a gang that stop before they run the network, each with the directory
    of a :class:`~pytest_ascendcache.faults.Gate`; their process id is left there as ``pid``;
    with ``held_late`` they run ``before`` first.
    ``fresh`` starts a process from nothing, where others may be forked from one that has loaded
    the toolchain. ``dropout`` has the first input go through a Dropout, which changes it in
    training (``TrainRequest.phase``) and in nothing else; training leaves no outputs.
    ``jit_level`` is how much is optimised. ``later`` are variables that the process itself sets
    once it has run ``before``, ``of_rank`` those that a rank of a gang sets before it compiles
    anything. None of this but ``dropout`` is in the script's text.
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
    """A network, and where everything goes.

    ``directory`` is for the network's file and its outputs, ``work`` the working directory.
    ``environment`` (``RANK_ID``, ...) comes on top of a cleaned one. ``phase`` ``None`` leaves
    the option out. ``second`` is how many true seconds one second of waiting for other ranks
    lasts; anything but 1 needs ``Capability.REHEARSED_WAITS``. ``file`` is given in the network's
    place, as it is. ``plan`` is what is to go wrong (``Toolchain.fault_route``). ``umask`` is the
    process's, inherited where it is ``None``. ``script`` says how a script is written, where there
    is one.
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


@dataclass(frozen=True)
class TrainResult(ProcessResult):
    """How one rank ended and what its network gave.

    ``returncode`` is negative for a signal and ``None`` where the deadline (seconds) passed and
    the process group was killed. ``outputs`` are arrays by tensor name, ``None`` where there are
    none. ``left_behind`` counts processes the rank left running (they were killed then).
    ``claimed`` is how many kernels the toolchain itself says it compiled, where it says so;
    nothing is decided by it. ``asleep`` are seconds in which it was seen to use no processor.
    """

    request: TrainRequest
    argv: tuple[str, ...]
    returncode: int | None
    deadline: float
    output: str
    outputs: Mapping[str, NDArray[Any]] | None
    left_behind: int
    claimed: int | None = None
    asleep: float = 0.0

    @property
    def work(self) -> Path:
        """The directory it ran in."""
        return self.request.work

    @property
    def settings(self) -> Mapping[str, str]:
        """What was added to its environment."""
        return self.request.environment

    @property
    def missing(self) -> str:
        """What it failed to do, in words."""
        return "gave no outputs" if self.outputs is None else ""


@dataclass(frozen=True)
class RankProcess:
    """One rank that was started. Every one has to be waited for.

    ``sleep`` is after how many seconds without any processor time it is taken for one that never
    ends; ``None``: it may wait for other ranks.
    """

    request: TrainRequest
    argv: tuple[str, ...]
    running: Running
    deadline: float
    claims: Callable[[str], int | None] = lambda _: None
    sleep: float | None = None

    def kill(self) -> None:
        """``kill -9`` it and its children now."""
        self.running.kill()

    def wait(
        self, deadline: float | None = None, beside: Sequence[RankProcess] = ()
    ) -> TrainResult:
        """Wait for its end; after ``deadline`` seconds its process group is killed. Where it may
        sleep ``beside`` others that work, it is not asleep as long as one of them is not."""
        patience = self.deadline if deadline is None else deadline
        until, asleep = time.monotonic() + patience, 0.0
        if self.sleep is not None and patience > self.sleep:
            others = [each.running for each in beside]
            asleep = ends_or_sleeps(self.running, self.sleep, patience, others)
            until = time.monotonic()
        ended = self.running.wait(until)
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
    """Start the program ``train`` for one rank; ``route`` carries out its plan, if it has one.

    Raises:
        ToolchainError: where it cannot be started.
    """
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
    running = launcher.start(program, arguments, environment, request.work, request.umask)
    return RankProcess(request, launcher.argv(program, arguments), running, deadline)


def read_outputs(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays a rank left, or ``None`` where it left none that can be read."""
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError):
        return None
