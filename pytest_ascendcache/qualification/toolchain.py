"""The embedded reference toolchain as a ``Toolchain``: started as a process, or by fork."""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.faults import FaultPoints
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.processes.launch import (
    Command,
    Launcher,
    ProcessLauncher,
    Running,
    ToolchainError,
)
from pytest_ascendcache.qualification import defective
from pytest_ascendcache.reference import atc, faulty, forkserver, run, train
from pytest_ascendcache.reference import edition as played
from pytest_ascendcache.reference.impl_mode import BUILT_IN
from pytest_ascendcache.reference.kernels import elementwise
from pytest_ascendcache.reference.static_kernel import installer, op_compiler, resident
from pytest_ascendcache.reference.static_kernel.client import command
from pytest_ascendcache.toolchains.atc import AtcToolchain
from pytest_ascendcache.toolchains.protocol import StagedChange
from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest, start_rank

_SOCS = frozenset(
    ("Ascend310P3", *(f"Ascend910B{each}" for each in ("1", "2", "2C", "3", "4", "4-1")))
)
"""Chips the suite compiles for in addition to the one under test."""

_MODULES = {
    "atc": atc,
    "run": run,
    "train": train,
    "op-compiler": op_compiler,
    "installer": installer,
    "aclgraph": command,
}
"""The reference's programs and their modules."""

_CUSTOM_OPERATOR = '''\
"""A custom operator whose source is about to change."""

from {module} import elementwise


@elementwise("AscendCacheProbe")
def probe(_, x):
    return x {operation} x
'''


class ReferenceToolchain(AtcToolchain):
    """The reference behind ATC's interface. It can also stage changes of its surroundings."""

    releases: Mapping[str, Mapping[str, str]] = {}
    repeats_itself = True
    """What it does wrong is a seeded defect, never an accident."""

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        if change is Capability.KNOWLEDGE_BASE:
            return _knowledge_base(operator, directory, _SOCS | {self.soc})
        if change is Capability.TOOLCHAIN_CHANGE:
            return _custom_operator(directory)
        if change is Capability.VERSION_STAMP:
            return _other_version(operator, directory)
        raise ToolchainError(f"the reference cannot stage a change of {change.value}.")

    @property
    def installed_socs(self) -> frozenset[str]:
        return _SOCS

    def start_rank(self, request: TrainRequest) -> RankProcess:
        base = self._base_environment
        return start_rank(self.launcher, request, base, self._deadline, self.fault_route())


def _knowledge_base(operator: OperatorSpec, directory: Path, socs: frozenset[str]) -> StagedChange:
    """A tuning knowledge base whose tile sizes change when the change is applied."""
    bank = directory / "bank"
    bank.mkdir(parents=True, exist_ok=True)

    def tune(tile: int) -> None:
        for soc in socs:
            text = json.dumps({operator.type: {"tile": tile}})
            (bank / f"{soc}.json").write_text(text, encoding="utf-8")

    tune(4)
    return StagedChange(operator, {"TUNE_BANK_PATH": str(bank)}, lambda: tune(8))


def _custom_operator(directory: Path) -> StagedChange:
    """A custom operator package whose implementation changes when the change is applied."""
    package = directory / "customize"
    source = package / "op_impl/ai_core/tbe/impl/ascend_cache_probe.py"
    source.parent.mkdir(parents=True, exist_ok=True)

    def implement(operation: str) -> None:
        source.write_text(
            _CUSTOM_OPERATOR.format(module=elementwise.__name__, operation=operation),
            encoding="utf-8",
        )

    implement("+")
    tensor = TensorDesc.of("float32", 8, 16)
    operator = OperatorSpec("AscendCacheProbe", (tensor,), (tensor,), name="custom_probe")
    environment = {"ASCEND_CUSTOM_OPP_PATH": str(package)}
    return StagedChange(operator, environment, lambda: implement("*"))


def _other_version(operator: OperatorSpec, directory: Path) -> StagedChange:
    """An operator package whose version changes each time the change is applied, a toolkit, and
    its compiler. Kernels do not change."""
    places = {"opp": "ASCEND_OPP_PATH", "toolkit": "ASCEND_TOOLKIT_HOME"}
    versions = {name: directory / name / "version.info" for name in places}
    versions["compiler"] = directory / "toolkit" / "compiler" / "version.info"
    for path in versions.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Version=8.0.RC1\n", encoding="utf-8")
    environment = {variable: str(directory / name) for name, variable in places.items()}

    numbers = itertools.count()

    def apply() -> None:  # each next version begins with the first one
        versions["opp"].write_text(f"Version=8.0.RC1{next(numbers)}\n", encoding="utf-8")

    return StagedChange(operator, environment, apply, versions)


def _words(module: ModuleType, *arguments: str) -> tuple[str, ...]:
    """The command that starts a module as a program."""
    return (sys.executable, "-m", module.__name__, *arguments)


def _version() -> str:
    """The version, with LLVM and the machine, on which kernels depend too."""
    llvm = f"llvmlite {version('llvmlite')}"
    return f"{version('pytest-ascendcache')} ({llvm}, {platform.machine()})"


def kernel_launcher() -> Launcher:
    """Runs kernels of the reference's compiler by fork, for other toolchains with such kernels."""
    return ForkLauncher(_words(forkserver), {"run": _words(run)})


def reference_toolchain(
    start: str = "fork",
    deadline: float = 60.0,
    defect: str | None = None,
    soc: str | None = None,
    edition: str = DEFAULT_NAMES[CANN],
) -> AtcToolchain:
    """The embedded toolchain. ``start`` is ``fork`` or ``process``; both produce the same files.

    ``defect`` names a seeded defect or a profile of ``qualification``, ``soc`` the chip under test
    (default: ``Ascend910B1``), and ``edition`` the release of CANN that it plays.
    """
    programs = {program: _words(module) for program, module in _MODULES.items()}
    programs.update(
        {f"faulty-{each}": _words(faulty, each) for each in _MODULES if each != "run"},
        forkserver=_words(forkserver),
    )
    if defect:
        programs = {each: _words(defective, defect, each) for each in programs}
    server = programs.pop("forkserver")
    launcher: Launcher = (
        ForkLauncher(server, programs) if start == "fork" else ProcessLauncher(programs)
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    environment[played.VARIABLE] = edition
    # Packages call python3. The one next to this interpreter starts quickly; a version manager's
    # on PATH is a script that starts twenty programs first.
    beside = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(filter(None, (beside, environment.get("PATH"))))
    toolchain = ReferenceToolchain(
        name="reference" + (f" with defect '{defect}'" if defect else ""),
        version=_version(),
        launcher=launcher,
        capabilities=frozenset(Capability) - {Capability.GANG_LAUNCHER},
        deadline=deadline,
        base_environment=environment,
        impl_mode_directory=BUILT_IN,
        fault_route=FaultPoints(),
    )
    if start == "fork":
        installers = {(), *([defective.installer_words(defect)] if defect else [])}

        def start_package(
            command: Sequence[str], environment: Mapping[str, str], work: Path
        ) -> Running | None:
            """Fork the server for a package that it has already loaded."""
            found = resident.resident(command, environment)
            if found is None or found.words not in installers:
                return None
            fork = Command("resident", found.command, environment, work)
            return toolchain.launcher.start(fork)

        toolchain.packages = start_package
    toolchain.soc = soc or DEFAULT_SOC
    toolchain.releases = {CANN: {"reference": edition}}
    return toolchain
