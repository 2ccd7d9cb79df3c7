"""Systems under test behind one small protocol. This room does not judge."""

from pytest_ascendcache.operators import OperatorInfo, write_opinfo
from pytest_ascendcache.processes.launch import ProcessLauncher, ToolchainError
from pytest_ascendcache.toolchains.atc import AtcToolchain
from pytest_ascendcache.toolchains.base import CommandToolchain
from pytest_ascendcache.toolchains.conversion import ConvertRequest, ConvertResult, ModelConverter
from pytest_ascendcache.toolchains.installed import atc_toolchain
from pytest_ascendcache.toolchains.op_compiler import op_compiler_toolchain
from pytest_ascendcache.toolchains.protocol import (
    BaseToolchain,
    CompileRequest,
    CompileResult,
    KernelRunError,
    StagedChange,
    Toolchain,
)
from pytest_ascendcache.toolchains.static_kernel import (
    Program,
    StaticProcess,
    StaticRequest,
    StaticResult,
)
from pytest_ascendcache.toolchains.training import RankProcess, Script, TrainRequest, TrainResult

__all__ = [
    "AtcToolchain",
    "BaseToolchain",
    "CommandToolchain",
    "CompileRequest",
    "CompileResult",
    "ConvertRequest",
    "ConvertResult",
    "KernelRunError",
    "ModelConverter",
    "OperatorInfo",
    "ProcessLauncher",
    "Program",
    "RankProcess",
    "Script",
    "StagedChange",
    "StaticProcess",
    "StaticRequest",
    "StaticResult",
    "Toolchain",
    "ToolchainError",
    "TrainRequest",
    "TrainResult",
    "atc_toolchain",
    "op_compiler_toolchain",
    "write_opinfo",
]
