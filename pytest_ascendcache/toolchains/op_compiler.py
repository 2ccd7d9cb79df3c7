"""Adapter for any command with op_compiler's interface: only static kernels are judged.

What its packages do is judged by running them. Source: document K; facts ``static-kernel``
sections 2.3 to 3.3.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import Strace, find_strace
from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import ProcessLauncher
from pytest_ascendcache.toolchains.atc import AtcToolchain

_INSTALLER = """\
case $2 in
--uninstall) name=${1##*/}
    exec "$ASCEND_OPP_PATH/static_kernel/ai_core/${name%.run}/uninstall.sh" ;;
*) exec "$1" ;;
esac
"""
"""What faults are planned for: a package, or the ``uninstall.sh`` it has installed."""


NAME = "op-compiler"


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
    programs = {
        "op-compiler": (str(Path(found).absolute()),),
        "installer": ("/bin/sh", "-c", _INSTALLER, "installer"),
    }
    strace = find_strace()
    if strace is not None:
        programs["strace"] = (strace,)
    launcher = ProcessLauncher(programs)
    offered = {Capability.OP_COMPILER: True, Capability.FAULT_POINTS: strace is not None}
    return AtcToolchain(
        name=NAME,
        version=str(Path(found).absolute()),
        launcher=launcher,
        capabilities=frozenset(each for each, there in offered.items() if there),
        deadline=deadline,
        base_environment=os.environ,
        # States of an install are rebuilt from one record, so every one of them can be looked at.
        fault_route=None if strace is None else Strace(launcher.argv, most_states=None),
    )
