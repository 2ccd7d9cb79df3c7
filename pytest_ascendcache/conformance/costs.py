"""What the checks of the suite cost, as recorded: in runs of the toolchain, and asleep.

``starts.json`` has the runs of each function of the suite, as counted on the reference. For
functions that start several kinds of process, of another toolchain, it has a pair under the
toolchain's name and theirs: their time in that of its shortest run, and seconds that are slept.
``ci/starts`` brings it up to date.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_LIVES = "cache_mode/test_lives.py::"
UNKNOWN = 2.0
"""Runs of a check that is not in the table."""


def runs_of(check: str, toolchain: str = "") -> float:
    """Runs that a check needs on average, named below the suite, with or without a case."""
    return _cost(check, toolchain)[0]


def asleep_of(check: str, toolchain: str = "") -> float:
    """Seconds that a check waits while no processor is used."""
    return _cost(check, toolchain)[1]


def life_of(check: str) -> str:
    """The function whose cases look at the same runs; empty for a check with runs of its own."""
    function = check.partition("[")[0]
    return function if function.startswith(_LIVES) else ""


def _cost(check: str, toolchain: str) -> tuple[float, float]:
    function = check.partition("[")[0]
    found = _table().get(f"{toolchain} {function}", _table().get(function, UNKNOWN))
    return (found[0], found[1]) if isinstance(found, list) else (found, 0.0)


@cache
def _table() -> dict[str, float | list[float]]:
    text = Path(__file__).with_name("starts.json").read_text("utf-8")
    found: dict[str, float | list[float]] = json.loads(text)
    return found
