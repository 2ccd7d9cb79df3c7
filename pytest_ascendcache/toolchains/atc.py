"""Adapter for any command with ATC's interface: the reference's, or a real ``atc``.

Source: documents C and I; facts ``cann-operator-cache`` section 6.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import FaultRoute, Strace, find_strace
from pytest_ascendcache.operators import OperatorSpec, write_single_op
from pytest_ascendcache.toolchains.launch import Launcher, ProcessLauncher, Running
from pytest_ascendcache.toolchains.protocol import (
    CompileRequest,
    CompileResult,
    KernelRunError,
    StagedChange,
    ToolchainError,
)
from pytest_ascendcache.toolchains.static_kernel import (
    StaticProcess,
    StaticRequest,
    start_static,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest

IMPL_MODE = Path("built-in/op_impl/ai_core/tbe/impl_mode")
"""Where an operator package keeps the tables of implementation modes (document I)."""

_CLEANED = {
    "ASCEND_CACHE_PATH",
    "ASCEND_MAX_OP_CACHE_SIZE",
    "ASCEND_OP_COMPILER_WORK_PATH_IN_KERNEL_META",
    "ASCEND_OP_COMPILE_SAVE_KERNEL_META",
    "ASCEND_REMAIN_CACHE_SIZE_RATIO",
    "ASCEND_WORK_PATH",
    "MIN_COMPILE_RESOURCE_USAGE_CTRL",
    "NPU_COLLECT_PATH",
    "PARA_DEBUG_PATH",
    "TUNE_BANK_PATH",
}
"""Variables that change what a cache does; the user's own must not reach a check."""


class AtcToolchain:
    """Drives one ATC-compatible command. Every compile is a process of its own.

    ``deadline`` is the time in seconds one process may take before its group is killed.
    """

    def __init__(
        self,
        name: str,
        version: str,
        launcher: Launcher,
        capabilities: frozenset[Capability],
        deadline: float,
        base_environment: Mapping[str, str],
        impl_mode_directory: Path | None = None,
        fault_route: FaultRoute | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.capabilities = capabilities
        self.launcher = launcher
        self._deadline = deadline
        self._impl_mode_directory = impl_mode_directory
        self._fault_route = fault_route
        self._base_environment = {
            key: value for key, value in base_environment.items() if key not in _CLEANED
        }

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        """See :class:`Toolchain`."""
        started: list[tuple[CompileRequest, tuple[str, ...], Running]] = []
        results: list[CompileResult] = []
        try:
            for request in requests:
                started.append(self._start(request))
            deadline = time.monotonic() + self._deadline
            for each in started:
                results.append(self._result(*each, deadline))
        finally:
            # Nobody is left behind, also when one cannot be started or the run is interrupted.
            for _, _, running in started[len(results) :]:
                with contextlib.suppress(ToolchainError, OSError, ValueError):
                    running.wait(0.0)
        return results

    def run_kernel(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """See :class:`Toolchain`."""
        import numpy

        with tempfile.TemporaryDirectory(prefix="ascendcache-run-") as name:
            directory = Path(name)
            numpy.savez(
                directory / "inputs.npz",
                allow_pickle=False,
                **{str(index): array for index, array in enumerate(inputs)},
            )
            arguments = [str(model), "inputs.npz", "outputs.npz"]
            running = self.launcher.start("run", arguments, self._environment({}), directory, None)
            ended = running.wait(time.monotonic() + self._deadline)
            if ended.returncode != 0:
                how = (
                    f"did not end within {self._deadline:g} s"
                    if ended.returncode is None
                    else f"ended with {ended.returncode}"
                )
                raise KernelRunError(f"running {operator} {how}: {ended.output.strip()[-300:]}")
            with numpy.load(directory / "outputs.npz", allow_pickle=False) as archive:
                return [archive[str(index)] for index in range(len(operator.outputs))]

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        """See :class:`Toolchain`; a subclass that declares the capability says how."""
        raise ToolchainError(f"{self.name} for {operator} in {directory}: {change.lacking}.")

    def impl_mode_tables(self) -> dict[str, str]:
        """See :class:`Toolchain`."""
        if self._impl_mode_directory is None:
            raise ToolchainError(f"{self.name}: {Capability.IMPL_MODE_TABLES.lacking}.")
        return {
            path.stem: path.read_text(encoding="utf-8-sig", errors="replace")
            for path in sorted(self._impl_mode_directory.glob("*.ini"))
        }

    def fault_route(self) -> FaultRoute:
        """See :class:`Toolchain`."""
        if self._fault_route is None:
            raise ToolchainError(f"{self.name}: {Capability.FAULT_POINTS.lacking}.")
        return self._fault_route

    def start_rank(self, request: TrainRequest) -> RankProcess:
        """See :class:`Toolchain`; a subclass that declares the capability says how."""
        raise ToolchainError(
            f"{self.name} for {request.network.name}: {Capability.INCREMENTAL_BUILD.lacking}."
        )

    def start_static(self, request: StaticRequest) -> StaticProcess:
        """See :class:`Toolchain`; it can where its launcher knows the programs."""
        if Capability.OP_COMPILER not in self.capabilities:
            raise ToolchainError(f"{self.name}: {Capability.OP_COMPILER.lacking}.")
        base = self._environment({})
        return start_static(self.launcher, request, base, self._deadline, self._fault_route)

    def close(self) -> None:
        """See :class:`Toolchain`."""
        self.launcher.close()

    def _start(self, request: CompileRequest) -> tuple[CompileRequest, tuple[str, ...], Running]:
        for directory in (request.output, request.work, request.home):
            directory.mkdir(parents=True, exist_ok=True)
        request = replace(request, operators=_distinct_names(request.operators))
        program, arguments = "atc", self._arguments(request)
        if request.plan is not None:
            program, arguments = self.fault_route().command(request.plan, program, arguments)
        running = self.launcher.start(
            program,
            arguments,
            self._environment({"HOME": str(request.home), **request.environment}),
            request.work,
            request.umask,
        )
        return request, self.launcher.argv(program, arguments), running

    def _arguments(self, request: CompileRequest) -> list[str]:
        options = request.options
        single_op = request.output / "operators.json"
        write_single_op(single_op, request.operators)
        debug_file = request.debug_file
        if options.debug_config is not None:
            debug_file = request.output / "debug.cfg"
            debug_file.write_text(options.debug_config.text(), encoding="utf-8")
        precision_file = None
        if options.precision_file is not None:
            precision_file = request.output / "op_precision.ini"
            # As bytes: line ends are part of what is passed on.
            precision_file.write_bytes(options.precision_file.content.encode())
        select, types = options.select_implmode, options.implmode_types
        mode = options.cache_mode.value if options.cache_mode else None
        given = {
            "singleop": single_op,
            "output": request.output,
            "soc_version": options.soc,
            "op_compiler_cache_mode": mode if request.raw_mode is None else request.raw_mode,
            "op_compiler_cache_dir": request.cache_dir,
            "op_debug_level": options.debug_level,
            "op_debug_config": debug_file,
            "op_select_implmode": select.value if select else None,
            "optypelist_for_implmode": ",".join(types) if types is not None else None,
            "op_precision_mode": precision_file,
            **request.raw_options,
        }
        return [f"--{key}={value}" for key, value in given.items() if value is not None]

    def _environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        return {**self._base_environment, **changes}

    def _result(
        self,
        request: CompileRequest,
        argv: tuple[str, ...],
        running: Running,
        deadline: float,
    ) -> CompileResult:
        ended = running.wait(deadline)
        paths = [request.output / f"{operator.name}.om" for operator in request.operators]
        return CompileResult(
            request=request,
            argv=argv,
            environment={"HOME": str(request.home), **request.environment},
            returncode=ended.returncode,
            deadline=self._deadline,
            output=ended.output,
            delivered=tuple(path if path.is_file() else None for path in paths),
        )


def _distinct_names(operators: Sequence[OperatorSpec]) -> tuple[OperatorSpec, ...]:
    """Names become file names; two operators of one name would overwrite each other."""
    named: list[OperatorSpec] = []
    taken: set[str] = set()
    for index, operator in enumerate(operators):
        name = operator.name or f"{operator.type}_{index}"
        if name in taken:
            name = f"{name}_{index}"
        taken.add(name)
        named.append(operator.named(name))
    return tuple(named)


def atc_toolchain(program: str, deadline: float) -> AtcToolchain:
    """The real ``atc``: ``program`` is a path, or a name to be found on PATH.

    Raises:
        ToolchainError: where there is no such program.
    """
    found = shutil.which(program)
    if found is None:
        raise ToolchainError(
            f"'{program}' is not an executable program; give the path of atc, or source the "
            "toolkit's set_env.sh so that atc is on PATH."
        )
    tables = _installed_tables(Path(found), os.environ)
    programs = {"atc": (str(Path(found).absolute()),)}
    strace = find_strace()
    if strace is not None:
        programs["strace"] = (strace,)
    launcher = ProcessLauncher(programs)
    offered = {
        Capability.OPERATOR_CACHE: program,
        Capability.IMPL_MODE_TABLES: tables,
        Capability.FAULT_POINTS: strace,
    }
    return AtcToolchain(
        name="atc",
        version=_installed_version(Path(found)),
        launcher=launcher,
        capabilities=frozenset(each for each, there in offered.items() if there is not None),
        deadline=deadline,
        base_environment=os.environ,
        impl_mode_directory=tables,
        fault_route=None if strace is None else Strace(launcher.argv),
    )


def _installed_tables(program: Path, environ: Mapping[str, str]) -> Path | None:
    """The installation's tables: below ``ASCEND_OPP_PATH``, or in ``opp`` beside the program."""
    opps = [directory / "opp" for directory in list(program.resolve().parents)[:4]]
    if environ.get("ASCEND_OPP_PATH"):
        opps.insert(0, Path(environ["ASCEND_OPP_PATH"]))
    found = (
        opp / IMPL_MODE for opp in opps if (opp / IMPL_MODE / "all_ops_impl_mode.ini").exists()
    )
    return next(found, None)


def _installed_version(program: Path) -> str:
    """``Version`` of the nearest ``version.info`` above the program."""
    for directory in list(program.resolve().parents)[:4]:
        for path in (directory / "version.info", directory / "compiler" / "version.info"):
            if path.is_file():
                for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                    if line.startswith("Version="):
                        return line.partition("=")[2].strip()
    return "version unknown"
