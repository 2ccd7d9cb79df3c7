"""Driving any command with ATC's interface: the reference's, or a real ``atc``.

Source: documents C and I; facts ``cann-operator-cache`` section 6.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import FaultPlan, FaultRoute, Strace, find_strace
from pytest_ascendcache.operators import OperatorSpec, write_single_op
from pytest_ascendcache.processes.ending import in_words
from pytest_ascendcache.processes.hosts import HostLauncher, another_host
from pytest_ascendcache.processes.launch import (
    Command,
    Ended,
    Launcher,
    ProcessLauncher,
    ToolchainError,
)
from pytest_ascendcache.toolchains.base import (
    CommandToolchain,
    Started,
    log_directory,
    wait_for_all,
)
from pytest_ascendcache.toolchains.conversion import ConvertRequest, ConvertResult, delivered_model
from pytest_ascendcache.toolchains.models import write_model
from pytest_ascendcache.toolchains.protocol import CompileRequest, KernelRunError
from pytest_ascendcache.toolchains.static_kernel import (
    PackageStarter,
    StaticProcess,
    StaticRequest,
    start_static,
)
from pytest_ascendcache.toolchains.training import read_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMPL_MODE = Path("built-in/op_impl/ai_core/tbe/impl_mode")
"""Where an operator package keeps its implementation mode tables (document I)."""

_CLEANED = {
    "ASCEND_CACHE_PATH",
    "ASCEND_MAX_OP_CACHE_SIZE",
    "ASCEND_OP_COMPILER_WORK_PATH_IN_KERNEL_META",
    "ASCEND_OP_COMPILE_SAVE_KERNEL_META",
    "ASCEND_PROCESS_LOG_PATH",
    "ASCEND_REMAIN_CACHE_SIZE_RATIO",
    "ASCEND_WORK_PATH",
    "MIN_COMPILE_RESOURCE_USAGE_CTRL",
    "NPU_COLLECT_PATH",
    "PARA_DEBUG_PATH",
    "TUNE_BANK_PATH",
}
"""Variables that influence a cache. The user's own values must not reach a check."""

_MODEL = "model"


class AtcToolchain(CommandToolchain):
    """Drives one command with ATC's interface. Every compile is a process of its own, which is
    killed after ``deadline`` seconds."""

    converts_models = True

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
        super().__init__(launcher, deadline)
        self.name = name
        self.version = version
        faults = {Capability.FAULT_POINTS} if fault_route is not None else set()
        self.capabilities = capabilities | faults
        self._impl_mode_directory = impl_mode_directory
        self._fault_route = fault_route
        self.packages: PackageStarter | None = None
        # Runs kernels and models in the launcher's place.
        self.runner: Launcher | None = None
        self._base_environment = {
            key: value for key, value in base_environment.items() if key not in _CLEANED
        }

    def run_kernel(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        arrays = {str(index): array for index, array in enumerate(inputs)}
        outputs = self._run(model, str(operator), arrays)
        return [outputs[str(index)] for index in range(len(operator.outputs))]

    def run_model(self, model: Path, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return self._run(model, model.name, inputs)

    def _run(
        self, model: Path, shown: str, inputs: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Run a delivered file with the launcher's program ``run``, which messages name ``shown``.
        Inputs and outputs are arrays by name. Raises ``KernelRunError`` if the process fails or
        does not end."""
        import numpy

        with tempfile.TemporaryDirectory(prefix="ascendcache-run-") as name:
            directory = Path(name)
            numpy.savez(directory / "inputs.npz", allow_pickle=False, **dict(inputs))
            arguments = [str(model), "inputs.npz", "outputs.npz"]
            command = Command("run", arguments, self._base_environment, directory)
            running = (self.runner or self.launcher).start(command)
            ended = running.wait(time.monotonic() + self._deadline)
            if ended.returncode != 0:
                ending = in_words(ended.returncode, self._deadline)
                raise KernelRunError(f"running {shown} {ending}: {ended.output.strip()[-300:]}")
            outputs = read_outputs(directory / "outputs.npz")
        if outputs is None:
            raise KernelRunError(f"running {shown} left no outputs that can be read")
        return outputs

    def close(self) -> None:
        super().close()
        if self.runner is not None:
            self.runner.close()

    def converting_command(self) -> tuple[str, ...]:
        return self.launcher.argv("atc", ())

    def convert_together(self, requests: Sequence[ConvertRequest]) -> list[ConvertResult]:
        return wait_for_all(map(self._start_conversion, requests), self._deadline)

    def _start_conversion(self, request: ConvertRequest) -> Started[ConvertResult]:
        for directory in (request.output.parent, request.work, request.home):
            directory.mkdir(parents=True, exist_ok=True)
        settings = {"HOME": str(request.home), **request.environment}
        environment = {**self._base_environment, **settings}
        running = self.launcher.start(Command("atc", request.arguments, environment, request.work))
        began = time.monotonic()

        def result(ended: Ended) -> ConvertResult:
            return ConvertResult(
                request=request,
                argv=self.launcher.argv("atc", request.arguments),
                environment=settings,
                returncode=ended.returncode,
                deadline=self._deadline,
                output=ended.output,
                model=delivered_model(request.output),
                seconds=time.monotonic() - began,
            )

        return running, result

    def impl_mode_tables(self) -> Mapping[str, str]:
        if self._impl_mode_directory is None:
            return super().impl_mode_tables()
        return {
            path.stem: path.read_text(encoding="utf-8-sig", errors="replace")
            for path in sorted(self._impl_mode_directory.glob("*.ini"))
        }

    def fault_route(self) -> FaultRoute:
        return self._fault_route or super().fault_route()

    def seen_by_strace(self, record: Path) -> AtcToolchain | None:
        """The same toolchain under strace, while it keeps its own ``record`` of file operations.
        None if the toolchain keeps no such record, or strace does not work on this machine."""
        route = self._fault_route
        if route is None or isinstance(route, Strace) or (strace := find_strace()) is None:
            return None

        def argv(program: str, arguments: Sequence[str]) -> tuple[str, ...]:
            return self.launcher.argv(*route.command(FaultPlan(record), program, arguments))

        seen = copy.copy(self)
        seen.launcher = ProcessLauncher({"strace": (strace,)})
        seen._fault_route = Strace(argv)
        return seen

    def apart(self) -> AtcToolchain:
        """The same toolchain, each of whose processes is started anew: they share no hash seed."""
        moved = copy.copy(self)
        moved.launcher = HostLauncher(self.launcher, tuple)
        return moved

    def on_host(self, name: str, process_id: int) -> AtcToolchain:
        """The same toolchain on a host of another name, whose first process has the id
        ``process_id``."""
        wrap = partial(another_host, name, process_id)
        moved = copy.copy(self)
        moved.launcher, moved.runner = HostLauncher(self.launcher, wrap), None
        route = self._fault_route
        # strace runs on the real host and counts the calls of each process.
        if isinstance(route, Strace):
            moved._fault_route = replace(route, argv=lambda *words: wrap(route.argv(*words)))
        return moved

    def prepared(self, request: CompileRequest) -> CompileRequest:
        as_model = request.as_model and Capability.SINGLE_OP_DEBUG not in self.capabilities
        operators = _distinct_names(request.operators, as_model)
        return replace(request, operators=operators, as_model=as_model)

    def start_static(self, request: StaticRequest) -> StaticProcess:
        if Capability.OP_COMPILER not in self.capabilities:
            return super().start_static(request)
        base = self._base_environment
        deadline, route = self._deadline, self._fault_route
        return start_static(self.launcher, request, base, deadline, route, self.packages)

    def environment(self, request: CompileRequest) -> dict[str, str]:
        added = {"HOME": str(request.home), **request.environment}
        if self.keeps_logs:
            log_directory(request).mkdir(exist_ok=True)
            added.setdefault("ASCEND_PROCESS_LOG_PATH", str(log_directory(request)))
        return {**self._base_environment, **added}

    def delivered(self, request: CompileRequest) -> list[Path]:
        if request.as_model:
            prefix = request.output / _MODEL
            return [delivered_model(prefix) or prefix.with_suffix(".om")] * len(request.operators)
        return [_om(request.output, *numbered) for numbered in enumerate(request.operators)]

    def command(self, request: CompileRequest) -> tuple[str, list[str]]:
        options = request.options
        debug_file = request.debug_file
        if options.debug_config is not None:
            debug_file = request.output / "debug.cfg"
            debug_file.write_text(options.debug_config.text(), encoding="utf-8")
        precision_file = None
        if options.precision_file is not None:
            precision_file = request.output / "op_precision.ini"
            # Written as bytes, because line ends must reach atc unchanged.
            precision_file.write_bytes(options.precision_file.content.encode())
        select, types = options.select_implmode, options.implmode_types
        mode = options.cache_mode.value if options.cache_mode else None
        values = {
            **_input(request),
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
        return "atc", [f"--{key}={value}" for key, value in values.items() if value is not None]


def find_program(program: str, name: str) -> Path:
    """Where the executable ``program`` is: a path, or a name to look up on PATH. Raises
    ``ToolchainError`` if there is none. The message suggests the path of ``name``."""
    path = shutil.which(program)
    if path is None:
        raise ToolchainError(
            f"'{program}' is not an executable program; give the path of {name}, or source the "
            f"toolkit's set_env.sh so that {name} is on PATH."
        )
    return Path(path).absolute()


def with_strace(
    programs: Mapping[str, tuple[str, ...]], **options: Any
) -> tuple[ProcessLauncher, Strace | None]:
    """A launcher of these programs and of strace, and the route of faults through it, with
    ``options`` of :class:`Strace`; None if this machine has no strace."""
    strace = find_strace()
    if strace is None:
        return ProcessLauncher(programs), None
    launcher = ProcessLauncher({**programs, "strace": (strace,)})
    return launcher, Strace(launcher.argv, **options)


def _input(request: CompileRequest) -> dict[str, object]:
    """The options for what is compiled and where the result goes."""
    if request.as_model:
        model = request.output / f"{_MODEL}.onnx"
        write_model(model, request.operators)
        prefix = request.output / _MODEL
        return {"model": model, "framework": 5, "input_format": "ND", "output": prefix}
    single_op = request.output / "operators.json"
    write_single_op(single_op, request.operators)
    return {"singleop": single_op, "output": request.output}


def _om(output: Path, index: int, operator: OperatorSpec) -> Path:
    """An operator's result. Instead of no name, or one that cannot be a file's, it has index, type
    and tensors.

    Source: facts ``cann-operator-cache`` section 6.2.
    """
    named = output / f"{operator.name}.om"
    if operator.name and "/" not in operator.name:
        return named
    return next(iter(sorted(output.glob(f"{index}_{operator.type}_*.om"))), named)


def _distinct_names(operators: Sequence[OperatorSpec], as_model: bool) -> tuple[OperatorSpec, ...]:
    """Operators with distinct names. Names become file names, so equal ones would overwrite each
    other. Nodes of a model have to have one."""
    named: list[OperatorSpec] = []
    taken: set[str] = set()
    for index, operator in enumerate(operators):
        name = operator.name or (f"{operator.type}_{index}" if as_model else "")
        while name and name in taken:
            name = f"{name}_{index}"
        taken.add(name)
        named.append(operator.named(name))
    return tuple(named)
