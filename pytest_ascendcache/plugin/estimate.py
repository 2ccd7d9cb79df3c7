"""How long a run will take: the runs that its checks need, at the pace of its positive control."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import needs_of, shares
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.plugin.session import AscendSession


def estimate(session: AscendSession, checks: Iterable[str], workers: int) -> str:
    """The line to print before the first check of a toolchain that compiles operators.

    It is empty for the reference, whose runs are short, and where nothing can be measured.
    """
    toolchain = session.toolchain
    needed = {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT}
    if session.settings.toolchain == "reference" or not needed <= toolchain.capabilities:
        return ""
    runs = estimated_starts(checks, toolchain.capabilities)
    if not runs or not session.control.compiles:
        return ""
    seconds = session.control.seconds
    how_many = f" with {workers} workers" if workers > 1 else ""
    return (
        f"about {runs} runs of {toolchain.name} (an estimate), {seconds:.2g} s each as measured: "
        f"about {duration(runs * seconds / min(workers, os.cpu_count() or 1))}{how_many}"
    )


def estimated_starts(checks: Iterable[str], capabilities: frozenset[Capability]) -> int:
    """Runs that checks (node ids) need of a toolchain with these capabilities."""
    names = (each.removeprefix(SUITE_NODES) for each in checks if each.startswith(SUITE_NODES))
    return round(sum(shares(each for each in names if needs_of(each) <= capabilities).values()))


def duration(seconds: float) -> str:
    """A time in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
