"""What every system under test is: a request goes in, files come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract import DEFAULT_SOC, Capability, CompileOptions
from pytest_ascendcache.faults import FaultPlan, FaultRoute
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.processes.launch import ToolchainError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_ascendcache.toolchains.static_kernel import StaticProcess, StaticRequest
    from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest


class KernelRunError(Exception):
    """A delivered kernel did not run to its end."""


@dataclass(frozen=True)
class CompileRequest:
    """Operators, options and directories of one compile.

    ``cache_dir`` becomes ``--op_compiler_cache_dir`` (None leaves the option out), ``home`` becomes
    HOME, ``work`` is the working directory. ``environment`` is added to a cleaned environment, from
    which the variables of ``unset`` are removed. ``raw_mode`` replaces the cache mode by a value
    the documents do not know. ``debug_file`` replaces the debug configuration by a file, and
    ``raw_options`` (``{"op_select_implmode": "fast"}``) replace options by their names; neither is
    checked. ``umask`` is that of the process. ``unprivileged`` takes root's rights over files of
    other users from it. ``plan`` is the fault to inject
    (``Toolchain.fault_route``). ``as_model`` compiles the operators as nodes of one model, if the
    toolchain lacks ``SINGLE_OP_DEBUG``.
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
    unprivileged: bool = False
    raw_options: Mapping[str, str] = field(default_factory=dict)
    plan: FaultPlan | None = None
    as_model: bool = False


@dataclass(frozen=True)
class CompileResult(ProcessResult):
    """How one process ended and what it delivered.

    ``returncode`` is negative for a signal, and None if the process group was killed at the
    ``deadline`` (seconds). ``output`` is the end of what the process printed, ``log`` the errors
    in its log files if it failed, else the warnings. ``delivered`` has one file for each operator,
    or None if the file is missing; operators of one model share a file. ``left_behind`` counts
    processes that outlived it, ``printed`` bytes, and ``seconds`` how long the process and those
    started together with it took; 0 where nobody counted.
    """

    request: CompileRequest
    environment: Mapping[str, str]
    delivered: tuple[Path | None, ...]
    log: str = ""
    left_behind: int = 0
    printed: int = 0
    seconds: float = 0.0

    @property
    def settings(self) -> Mapping[str, str]:
        return self.environment

    @property
    def unset(self) -> frozenset[str]:
        return self.request.unset

    @property
    def missing(self) -> str:
        """What the process failed to deliver, in words."""
        return "did not deliver every operator" if None in self.delivered else ""


@dataclass(frozen=True)
class StagedChange:
    """A prepared change of something that kernels are compiled from. ``apply`` makes the change; a
    version that was changed is another one than ever before each time. It affects compiles of
    ``operator`` under ``environment``. ``versions`` are the parts whose version can be set, each
    alone, with the file that states it as ``Version=...``."""

    operator: OperatorSpec
    environment: Mapping[str, str]
    apply: Callable[[], None]
    versions: Mapping[str, Path] = field(default_factory=dict)


class BaseToolchain:
    """One system under test: a toolchain without capabilities, from which adapters derive. Every
    compile is a process of its own.

    An adapter sets ``name`` (short, for headers and reports), ``version`` (as far as it can be told
    from outside) and ``capabilities`` (what it can do beyond compiling), implements
    ``compile_together``, and overrides what its capabilities promise. ``soc`` is the chip (SoC) it
    is judged for. ``birthmarks`` says whether every kernel it compiles carries a token of its own:
    ``ascendcache-canary:`` and 32 hexadecimal digits. An adapter that wraps the compiler can stamp
    them. Entries then need no marking, whatever their format.

    Four attributes are optional. ``network_layout`` is the layout in which networks keep what they
    compile, if it is not that of document M. ``unusable`` says why nothing can be run here, with
    the command that helps; empty if it can. ``ranks_apart`` says why ranks
    never wait for each other; empty if they do. ``releases`` maps products to the releases of their
    parts, which choose the edition of the documents to judge by: ``{"cann": {"toolkit": "8.0.0",
    "opp": "8.0.0"}}``, with an empty text for a part that does not tell.
    """

    name: str
    version: str
    capabilities: frozenset[Capability] = frozenset({Capability.OPERATOR_CACHE})
    soc: str = DEFAULT_SOC
    birthmarks: bool = False

    @property
    def installed_socs(self) -> frozenset[str] | None:
        """Chips the toolchain must be able to compile for; None if that cannot be told."""
        return None

    @property
    def details(self) -> Mapping[str, str]:
        """Paths and versions of the toolchain's parts, for reports."""
        return {}

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """Start one process for each request, all at the same time, and wait for all of them.
        Raises ``ToolchainError`` if a process cannot be started."""
        raise self._lacks(Capability.OPERATOR_CACHE, f"{len(requests)} requests")

    def run_kernel(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """Run a delivered kernel in a process of its own. Needs ``Capability.RUN_KERNELS``. Raises
        ``KernelRunError`` if the process fails or does not end."""
        raise self._lacks(Capability.RUN_KERNELS, f"{operator}, {model}, {len(inputs)} inputs")

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        """Prepare a change of the given kind below ``directory``. Needs that capability. The change
        should affect compiles of ``operator``, but may name another operator."""
        raise self._lacks(change, f"{operator} in {directory}")

    def impl_mode_tables(self) -> Mapping[str, str]:
        """The texts of the implementation mode tables, by name without suffix
        (``high_precision_for_all``). Needs ``Capability.IMPL_MODE_TABLES``."""
        raise self._lacks(Capability.IMPL_MODE_TABLES)

    def fault_route(self) -> FaultRoute:
        """How file operations are recorded and made to fail. Needs ``Capability.FAULT_POINTS``."""
        raise self._lacks(Capability.FAULT_POINTS)

    def start_rank(self, request: TrainRequest) -> RankProcess:
        """Start one rank's run of a network. Needs ``Capability.INCREMENTAL_BUILD``. Raises
        ``ToolchainError`` if it cannot be started."""
        raise self._lacks(Capability.INCREMENTAL_BUILD, request.network.name)

    def start_static(self, request: StaticRequest) -> StaticProcess:
        """Start op_compiler, a package or a client. Needs ``Capability.OP_COMPILER``, and
        ``Capability.STATIC_KERNEL_CLIENT`` for a client. Raises ``ToolchainError`` if it cannot be
        started."""
        raise self._lacks(Capability.OP_COMPILER, request.program.value)

    def close(self) -> None:
        """End what the adapter itself started."""

    def _lacks(self, capability: Capability, what: str = "") -> ToolchainError:
        whom = f"{self.name} for {what}" if what else self.name
        return ToolchainError(f"{whom}: {capability.lacking}.")


Toolchain = BaseToolchain
"""A toolchain as those who use it call it."""
