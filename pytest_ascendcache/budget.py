"""How long a run will take, said before it begins: starts a check needs, times a measured start.

Starts are estimated from ``starts.json``: what each check of the suite needed on the reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.session import AscendSession
from pytest_ascendcache.suite import SUITE_NODES

_UNKNOWN = 2.0
"""Starts of a check that is not in the table."""


def budget(session: AscendSession, checks: Iterable[str], workers: int) -> str:
    """The line to print; empty where a run takes no time to speak of, or cannot be told.

    The toolchain is started a few times (the positive control), to see how long that takes.
    """
    toolchain = session.toolchain
    if (
        session.settings.toolchain == "reference"
        or not {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT} <= toolchain.capabilities
    ):
        return ""
    starts = estimated_starts(checks, toolchain.capabilities)
    control = session.control
    if not starts or not control.compiles:
        return ""
    seconds = starts * control.seconds / workers
    how_many = f" with {workers} workers" if workers > 1 else ""
    return (
        f"about {starts} starts of {toolchain.name} (an estimate), {control.seconds:.2g} s each as "
        f"measured: about {_duration(seconds)}{how_many}"
    )


def estimated_starts(checks: Iterable[str], capabilities: frozenset[Capability]) -> int:
    """Starts that checks, named by node id, need of a toolchain with these capabilities."""
    total = 0.0
    rules = load_rules()
    for check in checks:
        if not check.startswith(SUITE_NODES):
            continue
        function = check.removeprefix(SUITE_NODES).partition("[")[0]
        known = _table().get(function)
        if known is None:
            total += _UNKNOWN
        elif known[0] not in rules or rules[known[0]].capabilities <= capabilities:
            total += known[1]
    return round(total)


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[str, float]]:
    path = Path(__file__).parent / "conformance/starts.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: (str(rule), float(starts)) for name, (rule, starts) in content.items()}


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
