"""The record of which checks of a budget notice generated mutants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.qualification import independent, matrix
from pytest_ascendcache.qualification.independent import noticed, of_atc, selections
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants
from pytest_ascendcache.qualification.runs import Asked, SuiteRun

TELLING = "cache_mode/test_cache_mode.py::test_telling"
"""The check that is chosen first, because according to the record it notices the most."""
OTHERS = [f"cache_mode/test_cache_mode.py::test_other[{number}]" for number in range(9)]
CHECKS = dict.fromkeys([TELLING, *OTHERS], "cache-mode/default-is-disable")


class Runs:
    """Stands in for runs of the suite: gives each mutant's verdicts, and records the runs."""

    checks = CHECKS

    def __init__(self, verdicts: dict[tuple[str, str], str], control: str = "") -> None:
        self.verdicts, self.control = verdicts, control
        self.asked: list[tuple[str, int]] = []

    def __call__(self, runs: Iterable[Asked], *_plugins: object) -> Iterator[SuiteRun]:
        for asked in runs:
            words = asked(Path())
            (name,) = (each.partition("=")[2] for each in words if "--ascend-defect" in each)
            nodes = [each for each in words if not each.startswith("--")]
            self.asked.append((name, len(nodes)))
            checks = [
                {
                    "check": SUITE_NODES + check,
                    "verdict": self.verdicts.get((name, check), "pass"),
                    "evidence": {"control": self.control},
                }
                for check in CHECKS
                if matrix.node_of(check) in nodes
            ]
            yield SuiteRun({"checks": checks})


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "independent.json"
    monkeypatch.setattr(independent, "KEPT", path)
    monkeypatch.setattr(independent, "BUDGETS", (6, 8))
    kills = {"a defect": (matrix.Kill(1, TELLING, "cache-mode/default-is-disable", "", ""),)}
    monkeypatch.setattr(matrix, "read", lambda: kills)
    return path


def _mutants(count: int) -> list[Mutant]:
    return of_atc([*all_mutants().values()])[:count]


def test_only_mutants_of_what_atc_decides_are_judged() -> None:
    paths = {each.path for each in of_atc([*all_mutants().values()])}
    assert "reference/cache/aging.py" in paths
    assert not [each for each in paths if "static_kernel" in each or "incremental" in each]


@pytest.mark.usefixtures("kept")
def test_all_checks_run_on_mutants_that_no_budget_notices() -> None:
    first, second, third = _mutants(3)
    runs: Any = Runs({(first.name, TELLING): "fail", (second.name, OTHERS[-1]): "warn"})
    assert independent.record_by_check(runs, [first, second, third]) == 0
    chosen = {each for one in selections(CHECKS).values() for each in one.chosen}
    assert TELLING in chosen
    assert OTHERS[-1] not in chosen, "there are more checks than any budget has runs"
    rest = len(CHECKS) - len(chosen)
    asked = [(each.name, len(chosen)) for each in (first, second, third)]
    assert runs.asked == [*asked, (second.name, rest), (third.name, rest)]
    assert noticed() == {first.place: {TELLING}, second.place: {OTHERS[-1]}}


def test_a_sample_adds_to_the_record_and_replaces_its_own_mutants(kept: Path) -> None:
    first, second = _mutants(2)
    kept.write_text(json.dumps({first.place: ["old"], second.place: ["b"], "gone: `x`": ["c"]}))
    assert set(noticed()) == {first.place, second.place}, "the reference has changed since"
    runs: Any = Runs({})
    independent.record_by_check(runs, [first])
    assert noticed() == {second.place: {"b"}}


@pytest.mark.usefixtures("kept")
def test_a_toolchain_that_fails_its_control_is_noticed_by_any_check() -> None:
    (first,) = _mutants(1)
    runs: Any = Runs({}, control="nothing is served")
    independent.record_by_check(runs, [first])
    assert TELLING in noticed()[first.place]


def test_the_table_counts_mutants_that_are_still_there() -> None:
    assert len(noticed()) >= 8, "ci/qualify --mutants=40 --by-check"
