"""Estimates, before the first check, how long a run will take.

For a toolchain that compiles operators, the estimate is the number of runs that the checks need,
times the measured duration of a run, plus the time that checks take besides their runs, which was
recorded with the reference. Workers, processors and the longest check each limit the speed.

Where other processes use the machine too, the processor time of a run tells how long it takes on
free processors. How long all runs wait for a processor follows from how long this process has
waited so far, because a few runs wait less than many.
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
"""Seconds that a check takes besides its runs of the toolchain."""

SETUP = 12
"""Short runs that take as long as loading MindSpore and its positive control."""

WORTH_SAYING, LEAST = 30.0, 0.3
"""Seconds of a whole run that is worth an estimate, and of a short run of networks at least."""

SHORT = 0.025
"""Seconds of the reference's shortest run on a quiet machine, the unit of recorded times."""

HARM = 4.5
"""Extra runs that find out the harm, on average over the checks that a list of deviations names:
1085 for the 238 checks that the list of CANN's code names, 176 of which are broken."""

STRESS_OPERATOR, STRESS_STEP = 12.0, 1.0
"""Runs for each operator before and after a stress run, and the runs that a step is worth."""

_BUSY = 1.5
"""A machine counts as busy if work takes this many times as long as on free processors."""

_REFERENCE = "reference"
_MEASURED = 4
"""How often short runs are measured: a server's time is counted in coarse clock ticks."""

_STRESS = ("stress/", "stress_on_nodes/")


def estimate(
    session: AscendSession, checks: Iterable[str], workers: int, strain: float = 1.0
) -> str:
    """The line to print; empty if the run is short, or nothing can be estimated.

    This runs the positive control, to measure the toolchain. ``strain`` is how many times as long
    as on free processors work has taken so far.
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
    return _line(session, starts, control.seconds, seconds, workers, strain)


def _known_as_broken(session: AscendSession, names: Iterable[str]) -> list[str]:
    """Those checks that a list of deviations names, or that were broken in the baseline."""
    name, settings = session.toolchain.name, session.settings
    listed = [each for each in settings.deviations if not each.cell and each.is_about(name)]
    broken = settings.baseline.broken if settings.baseline is not None else frozenset()
    nodes = [SUITE_NODES + each for each in names]
    return [
        node for node in nodes if node in broken or any(entry.may_name(node) for entry in listed)
    ]


def _of_reference(session: AscendSession, names: list[str], workers: int, strain: float) -> str:
    """The line for the reference: the time of every check is recorded, and it waits for nothing."""
    time = _runs_in(session, names, _REFERENCE, SHORT)
    clocked = _clocked(session, names, SHORT)
    if sum(time.values()) * SHORT + sum(clocked.values()) < WORTH_SAYING * workers:
        return ""
    control = session.control
    if not control.compiles:
        return ""
    # Its first runs start the server that the others are forked from, once in every worker.
    before = _in_servers(session)
    again = [_measured_again(session) for _ in range(_MEASURED)]
    in_servers = (_in_servers(session) - before) / (_MEASURED * CONTROL_RUNS)
    free = min(each.seconds for each in again)
    if in_servers > 0:  # a server does part of its work while a check examines a run
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
    return _line(session, starts, min(each.seconds for each in again), seconds, workers, strain)


def _in_servers(session: AscendSession) -> float:
    """Processor seconds of all runs that were forked from a server; 0 without one."""
    launcher = session.toolchain.launcher if isinstance(session.toolchain, AtcToolchain) else None
    return launcher.used() if isinstance(launcher, ForkLauncher) else 0.0


def _measured_again(session: AscendSession) -> PositiveControl:
    sandbox = session.sandbox("estimate")
    try:
        return positive_control(session.toolchain, CONTROL_OPERATOR, sandbox)
    finally:
        session.discard(sandbox)


def _line(
    session: AscendSession, starts: float, each: float, seconds: float, workers: int, strain: float
) -> str:
    how_many = f" with {workers} workers" if workers > 1 else ""
    busy = ", as busy as this machine is" if strain >= _BUSY else ""
    return (
        f"about {starts:.0f} runs of {session.toolchain.name} (an estimate), {each:.2g} s each as "
        f"measured: about {duration(seconds)}{how_many}{busy}"
    )


def _runs_in(
    session: AscendSession, names: list[str], toolchain: str, run: float
) -> dict[str, float]:
    """The cost of checks in runs (see :func:`shares`), where a run takes ``run`` seconds."""
    stress, _ = _stress_cost(session, run)
    costs = shares(names, toolchain).items()
    return {name: stress if name.startswith(_STRESS) else cost for name, cost in costs}


def _clocked(session: AscendSession, names: Iterable[str], run: float) -> dict[str, float]:
    """Seconds that each check lasts by the clock, however busy the machine is."""
    _, seconds = _stress_cost(session, run)
    return {name: seconds if name.startswith(_STRESS) else 0.0 for name in names}


def _stress_cost(session: AscendSession, run: float) -> tuple[float, float]:
    """Runs that a stress run is worth, and seconds that it lasts by the clock.

    ``run`` is what a run takes, in seconds. The seconds are 0 if the steps end the stress run;
    otherwise its steps are no runs, because it does as many as it can.
    """
    stress = session.settings.stress
    steps = (stress.steps or DEFAULT_STRESS_STEPS) * STRESS_STEP
    around = STRESS_OPERATOR * stress.operators
    steps_come_first = stress.steps is not None and steps * run < (stress.seconds or 0.0)
    if stress.seconds is None or steps_come_first:
        return around + steps, 0.0
    return around, stress.seconds


def _longest(seconds: dict[str, float]) -> float:
    """Seconds of the longest check; checks that share the runs of a life count as one."""
    together: dict[str, float] = {}
    for name, own in seconds.items():
        key = life_of(name) or name
        together[key] = together.get(key, 0.0) + own
    return max(together.values(), default=0.0)


def _of_networks(session: AscendSession, functions: list[str], workers: int) -> str:
    """The line for a toolchain that compiles networks: some of its checks mostly wait."""
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
    # Each worker loads the toolchain and runs the positive control once.
    used = (runs + workers * SETUP) * each
    seconds = max(used / cores, (used + asleep) / workers)
    how_many = f" with {workers} workers" if workers > 1 else ""
    return (
        f"about as much as {runs:.0f} short runs of {toolchain.name} (an estimate), {each:.2g} s "
        f"each as measured, and {duration(asleep)} of waiting: about {duration(seconds)}{how_many}"
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
