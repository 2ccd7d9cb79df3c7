"""Skips a check if the toolchain under test lacks what the check needs."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import Action
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

_IMPOSSIBLE = {
    Action.HOLD: "it cannot be held at a file operation",
    Action.EROFS: "a read-only file system cannot be made for it",
}


def needs(toolchain: Toolchain, *needed: Capability | Action) -> None:
    """Skip the check unless the toolchain has the capabilities and the faults can be injected."""
    for each in needed:
        if isinstance(each, Capability):
            if each not in toolchain.capabilities:
                pytest.skip(f"{toolchain.name}: {each.lacking}")
        elif each not in _actions(toolchain):
            why = _IMPOSSIBLE.get(each, f"'{each.value}' cannot be made to happen in it")
            pytest.skip(f"{toolchain.name}: {why}")


def _actions(toolchain: Toolchain) -> frozenset[Action]:
    try:
        return toolchain.fault_route().actions
    except ToolchainError as error:
        pytest.skip(str(error))
