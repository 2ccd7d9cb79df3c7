"""The estimate of a run's duration, printed before the first check."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES, costs
from pytest_ascendcache.conformance.cache_mode import test_lives
from pytest_ascendcache.conformance.costs import runs_of, shares
from pytest_ascendcache.contract import Capability, Verdict
from pytest_ascendcache.contract.deviations import Deviation
from pytest_ascendcache.observation import PositiveControl
from pytest_ascendcache.plugin import estimate as module
from pytest_ascendcache.plugin.estimate import estimate, estimated_starts
from pytest_ascendcache.plugin.options.stress import StressSettings
from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.processes.strain import used_by
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reports.baseline import Baseline
from pytest_ascendcache.toolchains.installed import OF_ATC

LIFE = "cache_mode/test_lives.py::test_a_cache_lives_within_changing_limits"
PLAIN = "cache_mode/test_x.py::test_"
STRESS = "stress/test_stress.py::test_ranks_at_random"
WITH_TABLE = pytest.mark.usefixtures("table")


def cases_of(life: Any) -> list[str]:
    """Return the cases of a life, like those of the suite."""
    (parametrization,) = (mark for mark in life.pytestmark if mark.name == "parametrize")
    return [each.id for each in parametrization.args[1]]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of costs for checks that need no capability."""
    found: dict[str, Any] = {
        f"{PLAIN}short": 2.0,
        f"{PLAIN}long": 50.0,
        f"{PLAIN}dear": 2.0,
        f"reference {PLAIN}dear": [402.0, 0.0],
        LIFE: 11 / len(cases_of(test_lives.test_a_cache_lives_within_changing_limits)),
    }
    monkeypatch.setattr(costs, "_table", lambda: found)
    monkeypatch.setattr("os.cpu_count", lambda: 8)


def line_of(
    checks: list[str],
    workers: int = 1,
    control: PositiveControl | None = None,
    stress: StressSettings | None = None,
    strain: float = 1.0,
    toolchain: str = "atc",
    deviations: tuple[Deviation, ...] = (),
    baseline: Baseline | None = None,
) -> str:
    session: Any = SimpleNamespace(
        toolchain=SimpleNamespace(capabilities=OF_ATC, name=toolchain),
        settings=SimpleNamespace(
            toolchain=toolchain,
            stress=stress or StressSettings(),
            deviations=deviations,
            baseline=baseline,
        ),
        control=control or PositiveControl(seconds=1.0),
        sandbox=Path,
        discard=lambda _: None,
    )
    return estimate(session, [SUITE_NODES + each for each in checks], workers, strain)


@WITH_TABLE
@pytest.mark.parametrize(
    ("workers", "used", "phrase"),
    [
        (1, 0.0, "about 140 runs of atc (an estimate), 1 s each as measured: about 2.3 min"),
        (2, 0.0, "* about 72 s with 2 workers"),
        (64, 0.0, "* about 50 s with 64 workers"),  # the longest check
        (64, 4.0, "* about 3.3 min with 64 workers"),  # the processors
    ],
)
def test_workers_processors_and_the_longest_check_bound_a_run(
    workers: int, used: float, phrase: str
) -> None:
    checks = [f"{PLAIN}long", *(f"{PLAIN}short[{number}]" for number in range(45))]
    line = line_of(checks, workers, PositiveControl(seconds=1.0, used=used))
    assert line.endswith(phrase.removeprefix("*"))


@WITH_TABLE
@pytest.mark.parametrize(
    ("workers", "control", "strain", "seconds"),
    [
        # A run computes for 0.2 s and sleeps for 0.8 s. With waiting for processors it took 1.4 s.
        (1, PositiveControl(seconds=1.4, used=0.2), 3.0, 50.0 + 50 * 0.4),
        (2, PositiveControl(seconds=1.4, used=0.2), 3.0, 50.0 + 54 * 0.4 / 2),
        # Its processor time is unknown, so all of its duration may be sleep.
        (1, PositiveControl(seconds=1.4, used=0.0), 3.0, 50 * 1.4),
        # It only computes, and got a processor at once by luck.
        (1, PositiveControl(seconds=0.6, used=0.5), 3.0, 50 * 0.5 * 3),
        (1, PositiveControl(seconds=0.6, used=0.5), 1.0, 50 * 0.6),
    ],
)
def test_what_other_processes_take_is_told_from_what_a_run_takes(
    workers: int, control: PositiveControl, strain: float, seconds: float
) -> None:
    line = line_of([f"{PLAIN}long"], workers, control, strain=strain)
    busy = ", as busy as this machine is" if strain > 1 else ""
    how_many = f" with {workers} workers" if workers > 1 else ""
    assert line.endswith(f": about {module.duration(seconds)}{how_many}{busy}")


@WITH_TABLE
@pytest.mark.parametrize(
    ("workers", "strain", "in_servers", "seconds"),
    [
        (1, 1.0, 0.0, 4 * 402 * 0.5),
        (1, 1.0, 0.15, 4 * 402 * 0.25),
        (1, 3.0, 0.15, 4 * 402 * 0.25 * 3),
        # If a server worked at the same time, the shortest duration counts.
        (1, 1.0, 0.7, 4 * 402 * 0.5),
        # Every worker starts a server and runs the positive control.
        (2, 1.0, 0.15, 4 * 402 * 0.25 + 2 * 1.7),
        (2, 3.0, 0.15, 4 * 402 * 0.25 * 3 + 2 * 1.7),
    ],
)
def test_the_reference_computes_all_of_its_time(
    workers: int,
    strain: float,
    in_servers: float,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = iter((0.5, 0.75, 1.0, 1.5))
    clock = itertools.count(7.0, 8 * in_servers)
    monkeypatch.setattr(module, "_in_servers", lambda _: next(clock))
    monkeypatch.setattr(
        module, "positive_control", lambda *_: PositiveControl(seconds=next(taken), used=0.1)
    )
    checks = [f"{PLAIN}dear[{number}]" for number in range(4 * workers)]
    control = PositiveControl(seconds=1.7)
    line = line_of(checks, workers, control, strain=strain, toolchain="reference")
    assert f": about {module.duration(seconds)}" in line


def test_a_server_says_what_it_used_and_its_children() -> None:
    toolchain = reference_toolchain()
    launcher = toolchain.launcher
    assert isinstance(launcher, ForkLauncher)
    try:
        assert launcher.used() == 0.0
        launcher.warm()
        assert launcher.used() >= 0.0
        assert used_by(os.getpid()) > 0.0
        assert used_by(-1) == 0.0
    finally:
        toolchain.close()


@WITH_TABLE
@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"check": "test_long"}, 1),
        ({"check": "test_*"}, 3),
        ({"check": "test_other"}, 0),
        ({"check": "test_long", "toolchain": "another"}, 0),
        ({"check": "test_long", "cell": (("cache_mode", ("force",)),)}, 0),
    ],
)
def test_harm_of_checks_that_a_list_names_is_looked_for(entry: dict[str, Any], named: int) -> None:
    checks = [f"{PLAIN}long", f"{PLAIN}short[1]", f"{PLAIN}short[2]"]
    listed = Deviation(origin="", rule="", reason="", observed=(), **entry)
    line = line_of(checks, deviations=(listed,))
    assert line.startswith(f"about {54 + named * module.HARM:.0f} runs of atc")


@WITH_TABLE
def test_harm_of_what_was_broken_in_the_baseline_is_looked_for() -> None:
    checks = [f"{PLAIN}long", f"{PLAIN}short[1]", f"{PLAIN}short[2]"]
    verdicts = (Verdict.FAIL, Verdict.PASS, Verdict.WARN)
    found = {
        ("a/rule", SUITE_NODES + each): verdict
        for each, verdict in zip(checks, verdicts, strict=True)
    }
    baseline = Baseline(Path("earlier.json"), "atc 8.0", found, {}, {})
    line = line_of(checks, baseline=baseline)
    assert line.startswith(f"about {54 + 2 * module.HARM:.0f} runs of atc")


@pytest.mark.parametrize(
    ("seconds", "phrase"),
    [(56.4, "56 s"), (91.0, "1.5 min"), (120.0, "2 min"), (754.0, "13 min"), (5400.0, "1.5 h")],
)
def test_a_time_is_rounded_by_a_few_percent(seconds: float, phrase: str) -> None:
    assert module.duration(seconds) == phrase


@WITH_TABLE
def test_what_checks_do_beside_their_runs_counts() -> None:
    line = line_of([f"{PLAIN}dear"])
    assert line.startswith("about 2 runs of atc")
    assert line.endswith(f"about {2 + 400 * module.SHORT:.0f} s")


@WITH_TABLE
def test_one_case_of_a_life_costs_all_of_its_runs() -> None:
    some = shares([f"{LIFE}[off]", f"{LIFE}[bad]", f"{PLAIN}short[1]"])
    assert some == {
        f"{LIFE}[off]": pytest.approx(5.5),
        f"{LIFE}[bad]": pytest.approx(5.5),
        f"{PLAIN}short[1]": 2.0,
    }
    needed = estimated_starts([f"{SUITE_NODES}{LIFE}[off]"], frozenset(Capability))
    assert needed == 11


def test_all_cases_of_a_life_cost_what_is_on_record() -> None:
    life = "cache_mode/test_lives.py::test_a_cache_lives_through_every_mode"
    names = cases_of(test_lives.test_a_cache_lives_through_every_mode)
    cases = [f"{life}[{each}]" for each in names]
    assert sum(shares(cases).values()) == pytest.approx(len(names) * runs_of(life))


@WITH_TABLE
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (StressSettings(operators=2), (24 + 120) * 0.25),
        (StressSettings(steps=40, operators=2), (24 + 40) * 0.25),
        (StressSettings(seconds=60.0, operators=2), 24 * 0.25 + 60),
        (StressSettings(seconds=60.0, steps=4000, operators=2), 24 * 0.25 + 60),
        (StressSettings(seconds=6000.0, steps=10, operators=2), (24 + 10) * 0.25),
    ],
)
def test_stress_takes_what_is_asked_for(asked: StressSettings, seconds: float) -> None:
    line = line_of([STRESS], 4, PositiveControl(seconds=0.25), asked)
    assert line.endswith(f"about {module.duration(seconds)} with 4 workers")


@WITH_TABLE
@pytest.mark.parametrize("toolchain", ["atc", "reference"])
def test_seconds_that_are_asked_for_do_not_grow_on_a_busy_machine(
    toolchain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = PositiveControl(seconds=0.25, used=0.25)
    monkeypatch.setattr(module, "positive_control", lambda *_: control)
    asked = StressSettings(seconds=60.0, operators=2)
    line = line_of([STRESS], 1, control, asked, strain=5.0, toolchain=toolchain)
    assert f": about {module.duration(60 + 24 * 0.25 * 5)}, as busy" in line


@WITH_TABLE
def test_nothing_is_said_of_what_does_not_apply() -> None:
    assert line_of([]) == ""
    assert line_of([f"{PLAIN}short"], control=PositiveControl(compiles=False)) == ""
