"""The table of the costs of checks, which ``ci/starts`` writes, and its MindSpore entries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pytest_ascendcache
from pytest_ascendcache.conformance.costs import TOGETHER, UNKNOWN, asleep_of, runs_of
from pytest_ascendcache.reports.files import SCHEMA
from tests.project.conftest import CiModule

SUITE = Path(pytest_ascendcache.__file__).parent / "conformance"
GRAPH, OPERATORS = "mindspore-graph-cache", "mindspore-operator-cache"
FOLDERS = {GRAPH: ("common", "graph_cache"), OPERATORS: ("common", "operator_cache")}


@pytest.fixture
def starts(ci_module: CiModule) -> ModuleType:
    """The module ``ci/starts.py``."""
    return ci_module("starts")


@pytest.mark.parametrize("toolchain", FOLDERS)
def test_every_check_of_mindspore_has_its_cost(toolchain: str) -> None:
    table = json.loads((SUITE / "starts.json").read_text(encoding="utf-8"))
    checks = {
        f"mindspore/{folder}/{path.name}::{name}"
        for folder in FOLDERS[toolchain]
        for path in (SUITE / "mindspore" / folder).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {each for each in checks if f"{toolchain} {each}" not in table} == set()


def test_a_check_costs_what_the_table_says_of_the_toolchain() -> None:
    check = "mindspore/operator_cache/test_builders.py::test_a_killed_compile_worker_is_noticed"
    assert asleep_of(check, OPERATORS) > 15.0
    assert runs_of(check, OPERATORS) != UNKNOWN
    assert (runs_of(check), asleep_of(check)) == (UNKNOWN, 0.0)
    assert runs_of("nowhere/test_x.py::test_y[case]", GRAPH) == UNKNOWN


def _check(name: str, starts: int, waited: float, asleep: float = 0.0) -> dict[str, Any]:
    evidence = {"starts": starts, "waited": waited, "asleep": asleep}
    check = f"pytest_ascendcache/conformance/mindspore/common/test_x.py::{name}"
    return {"check": check, "seconds": waited, "evidence": evidence}


def test_a_report_becomes_short_runs_and_seconds_asleep(
    starts: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = [_check(f"test_short[{number}]", 2, 1.0) for number in range(20)]
    report = {
        "schema": SCHEMA,
        "toolchain": {"name": GRAPH, "version": "2.10.0"},
        "checks": [*short, _check("test_slow", 1, 25.0, 20.0)],
    }
    table, path = tmp_path / "starts.json", tmp_path / "report.json"
    where = f"{GRAPH} mindspore/common/test_x.py::"
    kept = {"a/test_x.py::test_y": 3, f"{GRAPH} a/test_x.py::test_y": [3, 4]}
    table.write_text(json.dumps({**kept, f"{where}test_gone": [1, 2]}))
    path.write_text(json.dumps(report))
    monkeypatch.setattr(starts, "TABLE", table)
    monkeypatch.setattr(starts, "read_report", lambda path: json.loads(path.read_text()))
    starts.main([str(path)])
    assert json.loads(table.read_text()) == {
        **kept,
        f"{where}test_short": [2.0, 0.0],
        f"{where}test_slow": [10.0, 20.0],
    }


def test_checks_of_the_reference_have_their_runs_and_their_time(starts: ModuleType) -> None:
    short = [{**_check(f"test_short[{n}]", 2, 0.0), "seconds": 0.1} for n in range(20)]
    long = {**_check("test_long", 4, 0.0), "seconds": 10.0}
    report = {"toolchain": {"name": "reference"}, "checks": [*short, long]}
    where = "mindspore/common/test_x.py::"
    assert starts.costs(report) == {
        f"{where}test_short": 2,
        f"{where}test_long": 4,
        f"reference {where}test_short": [2.0, 0.0],
        f"reference {where}test_long": [200.0, 0.0],
    }


def test_cases_that_share_a_story_are_known_to_share_its_runs() -> None:
    sharing = {
        f"{path.relative_to(SUITE)}::{name}"
        for path in SUITE.rglob("test_*.py")
        for name, taken in re.findall(
            r"^def (test_\w+)\((.*?)\) -> None:", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        if re.search(r"\b(together: Together|compiled: Compiled)\b", taken)
    }
    assert sharing == TOGETHER
