"""How long a run will take, said before it begins: starts a check needs, times a measured start.

Starts are estimated from ``starts.json``: what each check of the suite needed on the reference.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES, module_of
from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.plugin.session import AscendSession

PER_CHECK = 0.04
"""Seconds that a check takes beside its runs of the toolchain."""

_UNKNOWN = 2.0
"""Starts of a check that is not in the table."""


def estimate(session: AscendSession, checks: Iterable[str], workers: int) -> str:
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
        f"about {starts} runs of {toolchain.name} (an estimate), {control.seconds:.2g} s each as "
        f"measured: about {duration(seconds)}{how_many}"
    )


def estimated_starts(checks: Iterable[str], capabilities: frozenset[Capability]) -> int:
    """Starts that checks, named by node id, need of a toolchain with these capabilities."""
    functions = Counter(
        check.removeprefix(SUITE_NODES).partition("[")[0]
        for check in checks
        if check.startswith(SUITE_NODES)
    )
    table = table_of_runs()
    needed = (
        number * runs_of(function, table)
        for function, number in functions.items()
        if _needs(function) <= capabilities
    )
    return round(sum(needed))


def table_of_runs() -> dict[str, float]:
    """Runs that a case of each function of the suite needs, as ``ci/starts`` recorded them."""
    text = (Path(__file__).parents[1] / "conformance/starts.json").read_text("utf-8")
    return {function: float(runs) for function, runs in json.loads(text).items()}


def runs_of(check: str, table: Mapping[str, float]) -> float:
    """Runs that a check needs, named below the suite."""
    return table.get(check.partition("[")[0], _UNKNOWN)


def _needs(function: str) -> frozenset[Capability]:
    """What the rule of a check needs of a toolchain; workers tell no more of it than its name."""
    name = function.partition("::")[2]
    module = importlib.import_module(f"{PACKAGE}.{module_of(function)}")
    for mark in getattr(getattr(module, name, None), "pytestmark", ()):
        if mark.name == "ascend_rule" and mark.args[0] in load_rules():
            return load_rules()[mark.args[0]].capabilities
    return frozenset()


def duration(seconds: float) -> str:
    """A time in the unit people would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
