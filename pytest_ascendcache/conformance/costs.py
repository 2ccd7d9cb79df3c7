"""What the checks of the suite cost in runs of the toolchain, as recorded on the reference.

``starts.json`` has a number for each function of the suite; ``ci/starts`` brings it up to date.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

UNKNOWN = 2.0
"""Runs of a check that is not in the table."""


def runs_of(check: str) -> float:
    """Runs that a check needs on average, named below the suite, with or without a case."""
    return _table().get(check.partition("[")[0], UNKNOWN)


@cache
def _table() -> dict[str, float]:
    text = Path(__file__).with_name("starts.json").read_text("utf-8")
    return {function: float(runs) for function, runs in json.loads(text).items()}
