"""What every system under test answers: a request in, artifacts on disk out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_ascendcache.contract import Capability, CompileOptions
from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.ending import ProcessResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_ascendcache.toolchains.static_kernel import StaticProcess, StaticRequest
    from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest


class KernelRunError(Exception):
    """A delivered kernel could not be run to its end."""


@dataclass(frozen=True)
class CompileRequest:
    """Operators and options, and where everything goes.

    ``cache_dir`` becomes ``--op_compiler_cache_dir`` (``None`` leaves the option out), ``home``
    the HOME, ``work`` the working directory. ``raw_mode`` is passed in the mode's place, for
    values the documents do not know. ``debug_file`` likewise names a debug configuration as it
    is. ``raw_options`` are passed as they are (``{"op_select_implmode": "fast"}``), in the place
    of what the options say. ``environment`` comes on top of a cleaned one; the variables of
    ``unset`` are not set at all. ``umask`` is that of
    the process. ``plan`` is what is to go wrong (``Toolchain.fault_route``). ``as_model``: the
    operators are to be nodes of one model, for toolchains without ``SINGLE_OP_DEBUG``.
    """

    operators: tuple[OperatorSpec, ...]
    options: CompileOptions
    cache_dir: Path | None
    output: Path
    work: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    raw_mode: str | None = None
    debug_file: Path | None = None
    umask: int | None = None
    raw_options: Mapping[str, str] = field(default_factory=dict)
    plan: FaultPlan | None = None
    as_model: bool = False


@dataclass(frozen=True)
class CompileResult(ProcessResult):
    """How one process ended and what it delivered.

    ``returncode`` is negative for a signal and ``None`` where the deadline (seconds) passed
    and the process group was killed. ``delivered`` has one file an operator, ``None`` where it
    is missing; where several are in one model they have one file. ``output`` is the end of
    what the process printed, ``log`` what its log files say of a failure.
    """

    request: CompileRequest
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    returncode: int | None
    deadline: float
    output: str
    delivered: tuple[Path | None, ...]
    log: str = ""

    @property
    def work(self) -> Path:
        """The directory it ran in."""
        return self.request.work

    @property
    def settings(self) -> Mapping[str, str]:
        """What was added to its environment."""
        return self.environment

    @property
    def unset(self) -> frozenset[str]:
        """What was taken out of its environment."""
        return self.request.unset

    @property
    def missing(self) -> str:
        """What it failed to deliver, in words."""
        return "did not deliver every operator" if None in self.delivered else ""


@dataclass(frozen=True)
class StagedChange:
    """A change of something kernels are compiled from, ready to be made.

    Compiles of ``operator`` under ``environment`` depend on it; ``apply`` makes the change.
    """

    operator: OperatorSpec
    environment: Mapping[str, str]
    apply: Callable[[], None]


class Toolchain(Protocol):
    """One system under test. Every compile is another process.

    Three attributes may be left out: ``network_layout``, where networks keep what they compile in
    another way than document M's; ``unusable``, why nothing can be run here and the command
    that helps (empty where it can); and ``releases``, which releases of which product it is of,
    for the edition of the documents it is judged by: a mapping like ``{"cann": {"toolkit":
    "8.0.0", "opp": "8.0.0"}}``, with empty texts for a part that hides it.
    """

    @property
    def name(self) -> str:
        """Short name for headers and reports."""

    @property
    def version(self) -> str:
        """Its version as far as it can be told from outside."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond compiling."""

    @property
    def soc(self) -> str:
        """The chip it is judged for."""

    @property
    def installed_socs(self) -> frozenset[str] | None:
        """Chips it has to be able to compile for; ``None`` where that cannot be told."""

    @property
    def details(self) -> Mapping[str, str]:
        """More of what it is, for reports: paths and versions of its parts."""

    @property
    def birthmarks(self) -> bool:
        """Whether each kernel it compiles is stamped with a token of its own (a text
        ``ascendcache-canary:`` and 32 hexadecimal digits): for a cache around a compiler that
        the adapter provides. Nothing in the cache has to be marked then, however it looks."""

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """Start one process a request, all at once, and wait for every one of them.

        Raises:
            ToolchainError: where a process cannot be started at all.
        """

    def run_kernel(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """Run a delivered kernel in a throw-away process. Needs ``Capability.RUN_KERNELS``.

        Raises:
            KernelRunError: where the process does not end well.
        """

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        """Prepare a change of the named kind below ``directory``; needs that capability.

        ``operator`` is what should be affected; the change may come with one of its own.
        """

    def impl_mode_tables(self) -> Mapping[str, str]:
        """The texts of its implementation mode tables by name without suffix, e.g.
        ``high_precision_for_all``. Needs ``Capability.IMPL_MODE_TABLES``.
        """

    def fault_route(self) -> FaultRoute:
        """How its file operations are recorded and broken. Needs ``Capability.FAULT_POINTS``."""

    def start_rank(self, request: TrainRequest) -> RankProcess:
        """Start one rank's run of a network. Needs ``Capability.INCREMENTAL_BUILD``.

        Raises:
            ToolchainError: where it cannot be started at all.
        """

    def start_static(self, request: StaticRequest) -> StaticProcess:
        """Start op_compiler, a package, or a client. Needs ``Capability.OP_COMPILER``, for a
        client ``Capability.STATIC_KERNEL_CLIENT``.

        Raises:
            ToolchainError: where it cannot be started at all.
        """

    def close(self) -> None:
        """End what the adapter itself started."""
