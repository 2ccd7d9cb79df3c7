"""The toolchain ``cann-cache``: a built checkout behind ATC's interface."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.contract.editions import CANN
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.launch import Launcher
from pytest_ascendcache.toolchains import StagedChange
from pytest_ascendcache.toolchains.atc import with_strace
from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit, reference_command
from pytest_ascendcache.toolchains.installed import Installation, InstalledAtc

_SOCS = frozenset(
    ("Ascend310P3", *(f"Ascend910B{each}" for each in ("1", "2", "2C", "3", "4", "4-1")))
)
"""Chips the suite compiles for besides the one under test."""

_RUN = "run"
"""The program that runs a kernel."""


class CannCache(InstalledAtc):
    """CANN's cache layer, parsers and key in a command of our own."""

    keeps_logs = False
    converts_models = False
    """What reads models and fuses their nodes is not part of the cache layer."""
    toolkit: Toolkit

    @property
    def details(self) -> Mapping[str, str]:
        return {**super().details, "commit": self.toolkit.commit or "unknown"}

    @property
    def releases(self) -> Mapping[str, Mapping[str, str]]:
        return {CANN: {"ge": self.toolkit.release}}

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        """CANN reads the toolkit's version beside the directory that its library was loaded from: a
        copy of the library has one of its own."""
        staged = super().stage(change, operator, directory)
        home, library = directory / "own-toolkit", self.toolkit.root / "lib64"
        shutil.copytree(library, home / library.name)
        shutil.copy(self.toolkit.root / "version.info", home)
        environment = {**staged.environment, "LD_LIBRARY_PATH": str(home / library.name)}
        versions = {**staged.versions, "toolkit": home / "version.info"}
        return replace(staged, environment=environment, versions=versions)

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
    fresh ones. Raises ``SourceError`` if it cannot be built."""
    toolkit = Builder(say=say).build(source)
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
    launcher, route = with_strace(programs)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    made = CannCache(
        name="cann-cache",
        version=toolkit.version,
        launcher=launcher,
        capabilities=frozenset(capabilities),
        deadline=deadline,
        base_environment={**environment, "ASCEND_OPP_PATH": str(opp)},
        impl_mode_directory=installation.tables,
        fault_route=route,
    )
    made.installation = installation
    made.toolkit = toolkit
    made.soc = soc or DEFAULT_SOC
    made.runner = kernels  # loading LLVM for each kernel takes much longer than running most
    return made
