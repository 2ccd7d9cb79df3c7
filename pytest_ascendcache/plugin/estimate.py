"""How long a run will take, said before it begins: runs that checks need, times a measured run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import asleep_of, needs_of, runs_of
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.plugin.session import AscendSession
from pytest_ascendcache.toolchains import ToolchainError

PER_CHECK = 0.04
"""Seconds that a check takes beside its runs of the toolchain."""

SETUP = 12
"""Short runs that loading MindSpore and its positive control are worth."""

WORTH_SAYING, LEAST = 30.0, 0.3
"""Seconds below which nothing is measured for an estimate, with so many for a short run."""


def estimate(session: AscendSession, checks: Iterable[str], workers: int) -> str:
    """The line to print; empty where a run takes no time to speak of, or cannot be told.

    The toolchain is started a few times (the positive control), to see how long that takes.
    """
    toolchain = session.toolchain
    if Capability.GANG_LAUNCHER in toolchain.capabilities:
        return _of_networks(session, checks, workers)
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


def _of_networks(session: AscendSession, checks: Iterable[str], workers: int) -> str:
    """The same of a toolchain that compiles networks: some of its checks mostly wait."""
    toolchain = session.toolchain
    functions = [each.removeprefix(SUITE_NODES) for each in checks if each.startswith(SUITE_NODES)]
    runs = sum(runs_of(each, toolchain.name) for each in functions)
    asleep = sum(asleep_of(each, toolchain.name) for each in functions)
    if runs * LEAST + asleep < WORTH_SAYING * workers:
        return ""
    try:
        each = session.network_control.seconds
    except ToolchainError:
        return ""
    cores = min(workers, os.cpu_count() or 1)
    # Each worker loads the toolchain once, and has a control of its own.
    used = (runs + workers * SETUP) * each
    seconds = max(used / cores, (used + asleep) / workers)
    how_many = f" with {workers} workers" if workers > 1 else ""
    return (
        f"about as much as {runs:.0f} short runs of {toolchain.name} (an estimate), {each:.2g} s "
        f"each as measured, and {duration(asleep)} of waiting: about {duration(seconds)}{how_many}"
    )


def estimated_starts(checks: Iterable[str], capabilities: frozenset[Capability]) -> int:
    """Starts that checks, named by node id, need of a toolchain with these capabilities."""
    functions = Counter(
        check.removeprefix(SUITE_NODES).partition("[")[0]
        for check in checks
        if check.startswith(SUITE_NODES)
    )
    needed = (
        number * runs_of(function)
        for function, number in functions.items()
        if needs_of(function) <= capabilities
    )
    return round(sum(needed))


def duration(seconds: float) -> str:
    """A time in the unit people would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
