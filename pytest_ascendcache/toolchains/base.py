"""What toolchains have in common, so that an adapter says only what is its own."""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.faults import FaultRoute
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import Launcher, Running
from pytest_ascendcache.toolchains.protocol import (
    CompileRequest,
    CompileResult,
    StagedChange,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_ascendcache.toolchains.static_kernel import StaticProcess, StaticRequest
    from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest

_LOG_FILES, _LOG_TAIL, _LOG_LINES, _LOG_WIDTH = 16, 65_536, 12, 400
"""Of logs: how many files, how many bytes of each, how many lines of all, how long ones."""


class BaseToolchain:
    """A toolchain that can do nothing yet; see :class:`Toolchain` for what each member means.

    An adapter sets ``name``, ``version`` and ``capabilities``, has ``compile_together``, and
    overrides what its capabilities promise.
    """

    name: str
    version: str
    capabilities: frozenset[Capability] = frozenset({Capability.OPERATOR_CACHE})
    soc: str = DEFAULT_SOC
    birthmarks: bool = False

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.OPERATOR_CACHE, f"{len(requests)} requests")

    @property
    def details(self) -> Mapping[str, str]:
        """See :class:`Toolchain`."""
        return {}

    @property
    def installed_socs(self) -> frozenset[str] | None:
        """See :class:`Toolchain`."""
        return None

    def run_kernel(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.RUN_KERNELS, f"{operator}, {model}, {len(inputs)} inputs")

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        """See :class:`Toolchain`."""
        raise self._lacks(change, f"{operator} in {directory}")

    def impl_mode_tables(self) -> Mapping[str, str]:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.IMPL_MODE_TABLES)

    def fault_route(self) -> FaultRoute:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.FAULT_POINTS)

    def start_rank(self, request: TrainRequest) -> RankProcess:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.INCREMENTAL_BUILD, request.network.name)

    def start_static(self, request: StaticRequest) -> StaticProcess:
        """See :class:`Toolchain`."""
        raise self._lacks(Capability.OP_COMPILER, request.program.value)

    def close(self) -> None:
        """See :class:`Toolchain`."""

    def _lacks(self, capability: Capability, what: str = "") -> ToolchainError:
        whom = f"{self.name} for {what}" if what else self.name
        return ToolchainError(f"{whom}: {capability.lacking}.")


class CommandToolchain(BaseToolchain, ABC):
    """A toolchain that is a command: one process a request, with a deadline in seconds.

    ``keeps_logs`` is whether it can be told where to log: what it says there is shown beside a
    compile that failed, and decides nothing.
    """

    keeps_logs: bool = False

    def __init__(self, launcher: Launcher, deadline: float) -> None:
        self.launcher = launcher
        self._deadline = deadline

    @abstractmethod
    def command(self, request: CompileRequest) -> tuple[str, list[str]]:
        """The launcher's program and its arguments; the files they name are written here."""

    @abstractmethod
    def environment(self, request: CompileRequest) -> dict[str, str]:
        """The whole environment of the process."""

    @abstractmethod
    def delivered(self, request: CompileRequest) -> Sequence[Path]:
        """Where each operator's result is, if there is one."""

    def prepared(self, request: CompileRequest) -> CompileRequest:
        """The request as it is carried out."""
        return request

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """See :class:`Toolchain`."""
        started: list[tuple[CompileRequest, tuple[str, ...], Running]] = []
        results: list[CompileResult] = []
        try:
            for request in requests:
                started.append(self._start(self.prepared(request)))
            deadline = time.monotonic() + self._deadline
            for each in started:
                results.append(self._result(*each, deadline))
        finally:
            # Nobody is left behind, also when one cannot be started or the run is interrupted.
            for _, _, running in started[len(results) :]:
                with contextlib.suppress(ToolchainError, OSError, ValueError):
                    running.wait(0.0)
        return results

    def close(self) -> None:
        """See :class:`Toolchain`."""
        self.launcher.close()

    def _start(self, request: CompileRequest) -> tuple[CompileRequest, tuple[str, ...], Running]:
        for directory in (request.output, request.work, request.home):
            directory.mkdir(parents=True, exist_ok=True)
        program, arguments = self.command(request)
        if request.plan is not None:
            program, arguments = self.fault_route().command(request.plan, program, arguments)
        environment = self.environment(request)
        given = {name: value for name, value in environment.items() if name not in request.unset}
        running = self.launcher.start(program, arguments, given, request.work, request.umask)
        return request, self.launcher.argv(program, arguments), running

    def _result(
        self, request: CompileRequest, argv: tuple[str, ...], running: Running, deadline: float
    ) -> CompileResult:
        ended = running.wait(deadline)
        paths = self.delivered(request)
        result = CompileResult(
            request=request,
            argv=argv,
            environment={
                name: value
                for name, value in {"HOME": str(request.home), **request.environment}.items()
                if name not in request.unset
            },
            returncode=ended.returncode,
            deadline=self._deadline,
            output=ended.output,
            delivered=tuple(path if path.is_file() else None for path in paths),
        )
        if result.succeeded or not self.keeps_logs:
            return result
        return replace(result, log=error_lines(log_directory(request)))


def log_directory(request: CompileRequest) -> Path:
    """Where a command that keeps logs is told to."""
    return request.output / "log"


def error_lines(directory: Path) -> str:
    """The last lines with ``[ERROR]`` of the log files below a directory, youngest file last.

    Log files may be huge and broken: of each the end is read, of all a few lines are given.
    """
    files = [path for path in directory.rglob("*.log") if path.is_file()]
    lines: list[str] = []
    for path in sorted(files, key=lambda each: each.stat().st_mtime_ns)[-_LOG_FILES:]:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL))
            text = file.read(_LOG_TAIL).decode("utf-8", "replace")
        lines += [line[:_LOG_WIDTH] for line in text.splitlines() if "[ERROR]" in line]
    return "".join(f"{line}\n" for line in lines[-_LOG_LINES:])
