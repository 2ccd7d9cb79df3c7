"""Adapter for any command with op_compiler's interface. Only static kernels are judged.

Its packages are judged by running them. Source: document K; facts ``static-kernel`` sections 2.3 to
3.3.
"""

from __future__ import annotations

import os

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.toolchains.atc import AtcToolchain, find_program, with_strace

_INSTALLER = """\
case $2 in
--uninstall) name=${1##*/}
    exec "$ASCEND_OPP_PATH/static_kernel/ai_core/${name%.run}/uninstall.sh" ;;
*) exec "$1" ;;
esac
"""
"""The command into which faults are injected: a package, or its installed ``uninstall.sh``."""

NAME = "op-compiler"


def op_compiler_toolchain(program: str, deadline: float) -> AtcToolchain:
    """The toolchain of an ``op_compiler``, named by its path or to be found on PATH. It has no
    operator cache, so the rules of the other documents are not applicable. Raises
    ``ToolchainError`` if there is no such program."""
    path = find_program(program, "op_compiler")
    installer = ("/bin/sh", "-c", _INSTALLER, "installer")
    # All crash states of an install are rebuilt from one record, so none needs to be left out.
    launcher, route = with_strace(
        {"op-compiler": (str(path),), "installer": installer}, most_states=None
    )
    return AtcToolchain(
        name=NAME,
        version=str(path),
        launcher=launcher,
        capabilities=frozenset({Capability.OP_COMPILER}),
        deadline=deadline,
        base_environment=os.environ,
        fault_route=route,
    )
