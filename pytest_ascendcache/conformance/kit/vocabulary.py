"""What nearly every check uses: modes, states, outcomes, marks, and what a check needs."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import CacheMode, Capability, EntryState
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
    Outcome,
)
from pytest_ascendcache.faults import Action
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

__all__ = ["COMPILED", "KEPT", "REMOVED", "REUSED", "Outcome"]

rule = pytest.mark.ascend_rule
profiles = pytest.mark.ascend_node_profiles
elementary = pytest.mark.ascend_elementary
"""Marks a check, or the cases it names, that asks whether an option, variable or file does anything
at all. Such checks come first in every selection, and cost about twelve runs a document.
``every_edition=True`` says that each edition promises what the check asks, even if its rule differs
between editions."""
ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
NONE, VALID, DAMAGED = EntryState.NONE, EntryState.VALID, EntryState.DAMAGED
MODES = (ENABLE, FORCE, DISABLE)
HIT, NEW = Outcome(REUSED, KEPT), Outcome(COMPILED, STORED)
REPLACED, BYPASSED = Outcome(COMPILED, REWRITTEN), Outcome(COMPILED, KEPT)
UNCACHED = Outcome(COMPILED, ABSENT)
"""Outcomes of a run that serves the entry, stores it, replaces it, compiles and leaves it alone, or
compiles and leaves none."""
OTHER_SOC = "Ascend310P3"
OTHER_SOCS = (OTHER_SOC, "Ascend910B3")
"""A chip of another family than the default chip, and one of the same family."""

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


def needs_meeting(toolchain: Toolchain) -> None:
    """Skip a check of ranks that wait for each other if the toolchain's ranks never meet."""
    if reason := getattr(toolchain, "ranks_apart", ""):
        pytest.skip(f"{toolchain.name}: {reason}")


def _actions(toolchain: Toolchain) -> frozenset[Action]:
    try:
        return toolchain.fault_route().actions
    except ToolchainError as error:
        pytest.skip(str(error))
