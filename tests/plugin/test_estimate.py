"""What a run is said to take before it begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES, costs
from pytest_ascendcache.conformance.costs import runs_of, shares
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import PositiveControl
from pytest_ascendcache.plugin import estimate as module
from pytest_ascendcache.plugin.estimate import estimate, estimated_starts
from pytest_ascendcache.plugin.options.stress import StressSettings
from pytest_ascendcache.toolchains.installed import OF_ATC

LIFE = "cache_mode/test_lives.py::test_a_cache_lives_within_changing_limits"
PLAIN = "cache_mode/test_x.py::test_"
STRESS = "stress/test_stress.py::test_ranks_at_random"
WITH_TABLE = pytest.mark.usefixtures("table")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of costs, and every check of it needs nothing special."""
    found: dict[str, Any] = {
        f"{PLAIN}short": 2.0,
        f"{PLAIN}long": 50.0,
        f"{PLAIN}dear": 2.0,
        f"reference {PLAIN}dear": [402.0, 0.0],
        LIFE: 1.1,
    }
    monkeypatch.setattr(costs, "_table", lambda: found)
    monkeypatch.setattr("os.cpu_count", lambda: 8)


def told(
    checks: list[str],
    workers: int = 1,
    control: PositiveControl | None = None,
    stress: StressSettings | None = None,
) -> str:
    session: Any = SimpleNamespace(
        toolchain=SimpleNamespace(capabilities=OF_ATC, name="atc"),
        settings=SimpleNamespace(toolchain="atc", stress=stress or StressSettings()),
        control=control or PositiveControl(seconds=1.0),
    )
    return estimate(session, [SUITE_NODES + each for each in checks], workers)


@WITH_TABLE
@pytest.mark.parametrize(
    ("workers", "used", "said"),
    [
        (1, 0.0, "about 140 runs of atc (an estimate), 1 s each as measured: about 2 min"),
        (2, 0.0, "* about 74 s with 2 workers"),
        (64, 0.0, "* about 50 s with 64 workers"),  # the longest check
        (64, 4.0, "* about 3 min with 64 workers"),  # the processors
    ],
)
def test_workers_processors_and_the_longest_check_bound_a_run(
    workers: int, used: float, said: str
) -> None:
    checks = [f"{PLAIN}long", *(f"{PLAIN}short[{number}]" for number in range(45))]
    line = told(checks, workers, PositiveControl(seconds=1.0, used=used))
    assert line.endswith(said.removeprefix("*"))


@WITH_TABLE
def test_what_checks_do_beside_their_runs_counts() -> None:
    line = told([f"{PLAIN}dear"])
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
    cases = [f"{life}[{each}]" for each in ("outcomes", "kernels", "private", "place", "inert")]
    assert sum(shares(cases).values()) == pytest.approx(5 * runs_of(life))


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
    line = told([STRESS], 4, PositiveControl(seconds=0.25), asked)
    assert line.endswith(f"about {module.duration(seconds)} with 4 workers")


@WITH_TABLE
def test_nothing_is_said_of_what_does_not_apply() -> None:
    assert told([]) == ""
    assert told([f"{PLAIN}short"], control=PositiveControl(compiles=False)) == ""
