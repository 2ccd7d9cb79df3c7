"""The toolchain ``cann-cache``: a built checkout behind ATC's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.contract.editions import CANN
from pytest_ascendcache.faults import Strace
from pytest_ascendcache.processes.launch import Command, Launcher, ProcessLauncher, Running
from pytest_ascendcache.toolchains.atc import with_strace
from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit, reference_command
from pytest_ascendcache.toolchains.installed import Installation, InstalledAtc

_SOCS = frozenset({"Ascend310P3", "Ascend910B1", "Ascend910B3"})
"""Chips the suite compiles for besides the one under test."""

_RUN = "run"
"""The program that runs a kernel."""


@dataclass(frozen=True)
class CannLauncher:
    """Starts the command as fresh processes, and lets ``kernels`` run kernels: loading LLVM for
    each takes much longer than running it."""

    commands: ProcessLauncher
    kernels: Launcher

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return self.commands.argv(program, arguments)

    def start(self, command: Command) -> Running:
        launcher = self.kernels if command.program == _RUN else self.commands
        return launcher.start(command)

    def close(self) -> None:
        self.kernels.close()
        self.commands.close()


class CannCache(InstalledAtc):
    """CANN's cache layer, parsers and key in a command of our own."""

    keeps_logs = False
    toolkit: Toolkit

    @property
    def details(self) -> Mapping[str, str]:
        return {**super().details, "commit": self.toolkit.commit or "unknown"}

    @property
    def releases(self) -> Mapping[str, Mapping[str, str]]:
        return {CANN: {"ge": self.toolkit.release}}

    @property
    def installed_socs(self) -> frozenset[str]:
        return _SOCS


def cann_cache_toolchain(
    source: Path,
    deadline: float,
    soc: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    kernels: Launcher | None = None,
) -> CannCache:
    """Build a checkout and wrap it. ``kernels`` starts the processes that run kernels, by default
    fresh ones.

    Raises:
        SourceError: if it cannot be built.
    """
    return toolchain_of(Builder(say=say).build(source), deadline, soc, kernels)


def toolchain_of(
    toolkit: Toolkit, deadline: float, soc: str | None = None, kernels: Launcher | None = None
) -> CannCache:
    """The toolchain of a built toolkit."""
    opp = toolkit.root / "opp"
    installation = Installation(toolkit.atc, opp)
    programs = {"atc": (str(toolkit.atc),), _RUN: (reference_command("ascendcache-run"),)}
    capabilities = {
        Capability.OPERATOR_CACHE,
        Capability.CANN_LAYOUT,
        Capability.DEBUG_CONFIG,
        Capability.SINGLE_OP_DEBUG,
        Capability.IMPL_MODE_TABLES,
        Capability.RUN_KERNELS,
        Capability.VERSION_STAMP,
    }
    commands, has_strace = with_strace(programs)
    if has_strace:
        capabilities.add(Capability.FAULT_POINTS)
    launcher = CannLauncher(commands, kernels or commands)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    made = CannCache(
        name="cann-cache",
        version=toolkit.version,
        launcher=launcher,
        capabilities=frozenset(capabilities),
        deadline=deadline,
        base_environment={**environment, "ASCEND_OPP_PATH": str(opp)},
        impl_mode_directory=installation.tables,
        fault_route=Strace(launcher.argv) if has_strace else None,
    )
    made.installation = installation
    made.toolkit = toolkit
    made.soc = soc or DEFAULT_SOC
    return made
