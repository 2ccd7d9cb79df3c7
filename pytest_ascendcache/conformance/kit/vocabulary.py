"""Short names for what nearly every check needs: modes, entry states, outcomes, the rule mark."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import CacheMode, EntryState
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

__all__ = ["ABSENT", "COMPILED", "KEPT", "REMOVED", "REUSED", "REWRITTEN", "STORED", "Outcome"]

rule = pytest.mark.ascend_rule
ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
NONE, VALID, DAMAGED = EntryState.NONE, EntryState.VALID, EntryState.DAMAGED
MODES = (ENABLE, FORCE, DISABLE)
OTHER_SOC = "Ascend310P3"
OTHER_SOCS = (OTHER_SOC, "Ascend910B3")
"""A chip of another family than the default chip, and one of the same family."""
