"""The estimate of a run's duration, printed before the first check, and the costs it rests on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES, costs
from pytest_ascendcache.conformance.cache_mode import test_lives
from pytest_ascendcache.conformance.costs import runs_of, shares
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import PositiveControl
from pytest_ascendcache.plugin import spreading as module
from pytest_ascendcache.plugin.spreading import estimate, estimated_starts
from pytest_ascendcache.toolchains.installed import OF_ATC

LIFE = "cache_mode/test_lives.py::test_a_cache_lives_within_changing_limits"
PLAIN = "cache_mode/test_x.py::test_"
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
        LIFE: 11 / len(cases_of(test_lives.test_a_cache_lives_within_changing_limits)),
    }
    monkeypatch.setattr(costs, "_table", lambda: found)
    monkeypatch.setattr("os.cpu_count", lambda: 8)


def line_of(
    checks: list[str], workers: int = 1, control: PositiveControl | None = None, name: str = "atc"
) -> str:
    session: Any = SimpleNamespace(
        toolchain=SimpleNamespace(capabilities=OF_ATC, name=name),
        settings=SimpleNamespace(toolchain=name),
        control=control or PositiveControl(seconds=1.0),
    )
    return estimate(session, [SUITE_NODES + each for each in checks], workers)


@WITH_TABLE
@pytest.mark.parametrize(
    ("workers", "phrase"),
    [
        (1, "about 140 runs of atc (an estimate), 1 s each as measured: about 2.3 min"),
        (2, ": about 70 s with 2 workers"),
        (64, ": about 18 s with 64 workers"),  # of 8 processors
    ],
)
def test_runs_at_the_measured_pace_are_shared_by_workers(workers: int, phrase: str) -> None:
    checks = [f"{PLAIN}long", *(f"{PLAIN}short[{number}]" for number in range(45))]
    assert line_of(checks, workers).endswith(phrase)


@pytest.mark.parametrize(
    ("seconds", "phrase"),
    [(56.4, "56 s"), (91.0, "1.5 min"), (120.0, "2 min"), (754.0, "13 min"), (5400.0, "1.5 h")],
)
def test_a_time_is_rounded_by_a_few_percent(seconds: float, phrase: str) -> None:
    assert module.duration(seconds) == phrase


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
def test_nothing_is_said_of_what_does_not_apply() -> None:
    assert line_of([]) == ""
    assert line_of([f"{PLAIN}short"], control=PositiveControl(compiles=False)) == ""
    assert line_of([f"{PLAIN}short"], name="reference") == ""
