"""Adapter for any command with op_compiler's interface: only static kernels are judged.

What its packages do is judged by running them. Source: document K; facts ``static-kernel``
sections 2.3 to 3.3.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import ProcessLauncher
from pytest_ascendcache.toolchains.atc import AtcToolchain


def op_compiler_toolchain(program: str, deadline: float) -> AtcToolchain:
    """The toolchain whose ``op_compiler`` is ``program``: a path, or a name to be found on PATH.

    It has no operator cache, so every rule of the other documents is not applicable.

    Raises:
        ToolchainError: where there is no such program.
    """
    found = shutil.which(program)
    if found is None:
        raise ToolchainError(
            f"'{program}' is not an executable program; give the path of op_compiler, or source "
            "the toolkit's set_env.sh so that it is on PATH."
        )
    return AtcToolchain(
        name="op-compiler",
        version=str(Path(found).absolute()),
        launcher=ProcessLauncher({"op-compiler": (str(Path(found).absolute()),)}),
        capabilities=frozenset({Capability.OP_COMPILER}),
        deadline=deadline,
        base_environment=os.environ,
    )
