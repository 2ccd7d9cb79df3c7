"""The words checks are written in."""

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

rule = pytest.mark.ascend_rule
ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
NONE, VALID, DAMAGED = EntryState.NONE, EntryState.VALID, EntryState.DAMAGED
MODES = (ENABLE, FORCE, DISABLE)
OTHER_SOC = "Ascend310P3"
OTHER_SOCS = (OTHER_SOC, "Ascend910B3")
"""One of another family than the default, and one of the same."""

__all__ = [
    "ABSENT",
    "COMPILED",
    "DAMAGED",
    "DISABLE",
    "ENABLE",
    "FORCE",
    "KEPT",
    "MODES",
    "NONE",
    "OTHER_SOC",
    "OTHER_SOCS",
    "REMOVED",
    "REUSED",
    "REWRITTEN",
    "STORED",
    "VALID",
    "Outcome",
    "rule",
]
