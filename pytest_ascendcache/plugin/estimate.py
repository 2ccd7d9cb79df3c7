"""How long a run will take, said before it begins.

Of a toolchain that compiles operators: the runs that checks need, times a run that is measured, and
the time that checks take beside their runs, as it was recorded with the reference. Processors bound
it as well as workers, and so does the longest check. Where other processes use the machine, what a
run takes on free processors is told from what it used of them, and what all runs wait for one from
what this process has waited so far: a few runs are served sooner than many.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from statistics import mean

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import asleep_of, life_of, needs_of, runs_of, shares
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import CONTROL_RUNS, PositiveControl, positive_control
from pytest_ascendcache.plugin.options.stress import DEFAULT_STRESS_STEPS
from pytest_ascendcache.plugin.session import CONTROL_OPERATOR, AscendSession
from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.toolchains import ToolchainError
from pytest_ascendcache.toolchains.atc import AtcToolchain

PER_CHECK = 0.04
"""Seconds that a check takes beside its runs of the toolchain."""

SETUP = 12
"""Short runs that loading MindSpore and its positive control are worth."""

WORTH_SAYING, LEAST = 30.0, 0.3
"""Seconds below which nothing is measured for an estimate, with so many for a short run."""

SHORT = 0.025
"""Seconds of the reference's shortest run on a quiet machine, the unit of what is recorded."""

HARM = 4.5
"""Runs that see what harm was done, on average of the checks that a list of deviations names: 1085
of 238 that the list of CANN's code names, of which 176 are broken."""

STRESS_OPERATOR, STRESS_STEP = 12.0, 1.0
"""Runs that each operator of a stress run needs before and after it, and those a step is worth."""

_BUSY = 1.5
"""How many times as long as on free processors work takes where a machine is called busy."""

_REFERENCE = "reference"
_MEASURED = 4
"""How often short runs are measured: what a server used is counted in clock ticks."""

_STRESS = ("stress/", "stress_on_nodes/")


def estimate(
    session: AscendSession, checks: Iterable[str], workers: int, strain: float = 1.0
) -> str:
    """The line to print; empty where a run takes no time to speak of, or cannot be told.

    The toolchain is started a few times (the positive control), to see how long that takes.
    ``strain`` is how many times as long as on free processors work has taken so far.
    """
    toolchain = session.toolchain
    names = [each.removeprefix(SUITE_NODES) for each in checks if each.startswith(SUITE_NODES)]
    if session.settings.toolchain == _REFERENCE:
        return _of_reference(session, names, workers, strain)
    if Capability.GANG_LAUNCHER in toolchain.capabilities:
        return _of_networks(session, names, workers)
    if not {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT} <= toolchain.capabilities:
        return ""
    applicable = [each for each in names if needs_of(each) <= toolchain.capabilities]
    control = session.control
    if not applicable or not control.compiles:
        return ""
    free = max(control.used, control.seconds - control.used * (strain - 1))
    runs = _runs_in(session, applicable, "", free)
    time = _runs_in(session, applicable, _REFERENCE, free)
    beside = {each: max(0.0, time[each] - runs[each]) * SHORT for each in applicable}
    starts = sum(runs.values()) + HARM * len(_known_as_broken(session, applicable))
    own = sum(beside.values())
    started = starts + (CONTROL_RUNS * workers if workers > 1 else 0)
    cores = os.cpu_count() or 1
    used = started * control.used + own
    clocked = _clocked(session, applicable, free)
    seconds = max(
        (started * free + own + sum(clocked.values())) / workers,
        used / cores,
        _longest({each: runs[each] * free + beside[each] + clocked[each] for each in applicable}),
    )
    seconds += used * (strain - 1) / workers
    return _told(session, starts, control.seconds, seconds, workers, strain)


def _known_as_broken(session: AscendSession, names: Iterable[str]) -> list[str]:
    """Which of these checks are named by a list of deviations, or were broken in the baseline."""
    name, settings = session.toolchain.name, session.settings
    listed = [each for each in settings.deviations if not each.cell and each.is_about(name)]
    baseline = settings.baseline
    broken = baseline.broken if baseline is not None else frozenset()
    nodes = {each: SUITE_NODES + each for each in names}
    return [
        each
        for each, node in nodes.items()
        if node in broken or any(entry.may_name(node) for entry in listed)
    ]


def _of_reference(session: AscendSession, names: list[str], workers: int, strain: float) -> str:
    """The same of the reference, of which every check was timed, and which waits for nothing."""
    time = _runs_in(session, names, _REFERENCE, SHORT)
    clocked = _clocked(session, names, SHORT)
    if sum(time.values()) * SHORT + sum(clocked.values()) < WORTH_SAYING * workers:
        return ""
    control = session.control
    if not control.compiles:
        return ""
    # Its first runs start the server from which the others are forked, as every worker does.
    before = _in_servers(session)
    again = [_measured_again(session) for _ in range(_MEASURED)]
    in_servers = (_in_servers(session) - before) / (_MEASURED * CONTROL_RUNS)
    free = min(each.seconds for each in again)
    if in_servers > 0:  # a server does part of its work while a run is looked at
        free = min(free, mean(each.used for each in again) + in_servers)
    time = _runs_in(session, names, _REFERENCE, free)
    alone = {name: time[name] * free for name in names}
    cores = os.cpu_count() or 1
    harm = HARM * len(_known_as_broken(session, names))
    used = sum(alone.values()) + harm * free
    if workers > 1:
        used += workers * CONTROL_RUNS * control.seconds / strain
    clocked = _clocked(session, names, free)
    seconds = max(
        used / min(workers, cores) + sum(clocked.values()) / workers,
        _longest({name: alone[name] + clocked[name] for name in names}),
    )
    seconds += used * (strain - 1) / workers
    starts = sum(_runs_in(session, names, "", free).values()) + harm
    return _told(session, starts, min(each.seconds for each in again), seconds, workers, strain)


def _in_servers(session: AscendSession) -> float:
    """Seconds of processors that runs used which are forked from a server; 0 where none are."""
    launcher = session.toolchain.launcher if isinstance(session.toolchain, AtcToolchain) else None
    return launcher.used() if isinstance(launcher, ForkLauncher) else 0.0


def _measured_again(session: AscendSession) -> PositiveControl:
    sandbox = session.sandbox("estimate")
    try:
        return positive_control(session.toolchain, CONTROL_OPERATOR, sandbox)
    finally:
        session.discard(sandbox)


def _told(
    session: AscendSession, starts: float, each: float, seconds: float, workers: int, strain: float
) -> str:
    how_many = f" with {workers} workers" if workers > 1 else ""
    busy = ", as busy as this machine is" if strain >= _BUSY else ""
    return (
        f"about {starts:.0f} runs of {session.toolchain.name} (an estimate), {each:.2g} s each as "
        f"measured: about {duration(seconds)}{how_many}{busy}"
    )


def _runs_in(
    session: AscendSession, names: list[str], toolchain: str, each: float
) -> dict[str, float]:
    """What checks cost in runs (see :func:`shares`); of a stress run what was asked for, where a
    run takes ``each`` seconds, but for what is asked for in seconds."""
    found = shares(names, toolchain)
    asked = session.settings.stress
    worth = STRESS_OPERATOR * asked.operators
    if not _by_the_clock(session, each):
        worth += _steps_in(session)
    return {name: worth if name.startswith(_STRESS) else cost for name, cost in found.items()}


def _clocked(session: AscendSession, names: Iterable[str], each: float) -> dict[str, float]:
    """Seconds of each check that are asked for, however busy the machine is."""
    asked = _by_the_clock(session, each)
    return {name: asked if name.startswith(_STRESS) else 0.0 for name in names}


def _by_the_clock(session: AscendSession, each: float) -> float:
    """Seconds after which a stress run ends, however many steps it got to; 0 where its steps end
    it."""
    asked = session.settings.stress
    if asked.seconds is None:
        return 0.0
    ends_sooner = asked.steps is not None and _steps_in(session) * each < asked.seconds
    return 0.0 if ends_sooner else asked.seconds


def _steps_in(session: AscendSession) -> float:
    """Runs that the steps of a stress run are worth."""
    return (session.settings.stress.steps or DEFAULT_STRESS_STEPS) * STRESS_STEP


def _longest(seconds: dict[str, float]) -> float:
    """What the longest check takes; those of a life are one, for they share its runs."""
    together: dict[str, float] = {}
    for name, each in seconds.items():
        key = life_of(name) or name
        together[key] = together.get(key, 0.0) + each
    return max(together.values(), default=0.0)


def _of_networks(session: AscendSession, functions: list[str], workers: int) -> str:
    """The same of a toolchain that compiles networks: some of its checks mostly wait."""
    toolchain = session.toolchain
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
    names = (each.removeprefix(SUITE_NODES) for each in checks if each.startswith(SUITE_NODES))
    return round(sum(shares(each for each in names if needs_of(each) <= capabilities).values()))


def duration(seconds: float) -> str:
    """A time in the unit people would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
