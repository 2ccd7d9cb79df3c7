"""Systems under test, each behind one small protocol. This room judges nothing."""

from pytest_ascendcache.toolchains.atc import AtcToolchain
from pytest_ascendcache.toolchains.base import BaseToolchain, CommandToolchain
from pytest_ascendcache.toolchains.installed import atc_toolchain
from pytest_ascendcache.toolchains.launch import Launcher, ProcessLauncher
from pytest_ascendcache.toolchains.protocol import (
    CompileRequest,
    CompileResult,
    KernelRunError,
    StagedChange,
    Toolchain,
    ToolchainError,
)
from pytest_ascendcache.toolchains.reference import reference_toolchain
from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest, TrainResult

__all__ = [
    "AtcToolchain",
    "BaseToolchain",
    "CommandToolchain",
    "CompileRequest",
    "CompileResult",
    "KernelRunError",
    "Launcher",
    "ProcessLauncher",
    "RankProcess",
    "StagedChange",
    "Toolchain",
    "ToolchainError",
    "TrainRequest",
    "TrainResult",
    "atc_toolchain",
    "reference_toolchain",
]
