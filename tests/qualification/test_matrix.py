"""The kill matrix names existing defects and checks, and quick runs use the cheapest checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ascendcache.combinations.generated import FAMILIES
from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.judging import first_asked, first_of_profile
from pytest_ascendcache.qualification.loading import load_defects
from pytest_ascendcache.qualification.matrix import VENDOR, Kill
from pytest_ascendcache.qualification.runs import Named

A, B = "cache-mode/enable-stores", "robust/stress"
DEFECT = replace(load_defects()["stores-nothing"], breaks=(A,), harm=None)


def kill(check: str, runs: int, rule: str = A, harm: str = "", crash: str = "") -> Kill:
    return Kill(runs, check, rule, harm, crash)


def chosen(defect: object, *kills: Kill) -> list[str]:
    checks = [each.check for each in kills]
    return [each.check for each in matrix.cheapest(defect, kills, checks)]  # type: ignore[arg-type]


def test_the_cheapest_check_of_each_rule_is_tried() -> None:
    kills = kill("dear", 9), kill("cheap", 2), kill("other", 5, B)
    assert chosen(DEFECT, *kills) == ["cheap"]
    assert chosen(replace(DEFECT, breaks=(A, B)), *kills) == ["cheap", "other"]


def test_what_shows_the_claimed_harm_and_interruption_is_tried() -> None:
    harmful = replace(DEFECT, harm=Harm.HANG)
    assert chosen(harmful, kill("cheap", 2), kill("dear", 9, harm="hang")) == ["cheap", "dear"]
    killed = replace(DEFECT, crash=CrashKind.KILLED.value)
    kills = kill("cheap", 2, crash="power-loss"), kill("dear", 9, crash="killed")
    assert chosen(killed, *kills) == ["dear"]


@pytest.mark.parametrize(
    "defect",
    [
        replace(DEFECT, breaks=(A, B)),
        replace(DEFECT, harm=Harm.HANG),
        replace(DEFECT, crash=CrashKind.POWER_LOSS.value),
    ],
    ids=["a rule without a record", "a harm no check saw", "an interruption no check made"],
)
def test_an_incomplete_record_chooses_no_checks(defect: object) -> None:
    assert chosen(defect, kill("cheap", 2)) == []


def test_a_check_that_is_gone_is_not_asked() -> None:
    assert matrix.cheapest(DEFECT, [kill("gone", 1), kill("there", 3)], ["there"]) == [
        kill("there", 3)
    ]


def test_a_defect_is_recorded_if_every_rule_has_a_check() -> None:
    both = replace(DEFECT, breaks=(A, B))
    assert not matrix.is_recorded(both, [kill("one", 1)], ["one"])
    assert matrix.is_recorded(both, [kill("one", 1), kill("other", 2, B)], ["one", "other"])
    assert not matrix.is_recorded(DEFECT, [kill("gone", 1)], ["one"])


def _runs(*checks: str) -> Any:
    """Return a stand-in for ``SuiteRuns`` with these checks."""
    return SimpleNamespace(checks=dict.fromkeys(checks, A), files=lambda _: [PACKAGE])


def test_generated_operators_are_narrowed_to_the_types_of_every_check() -> None:
    one, other = replace(kill("a.py::b", 1), types="Exp Add"), kill("a.py::c", 2, B)
    defect, runs = replace(DEFECT, breaks=(A, B)), _runs("a.py::b", "a.py::c")
    for kills, types in (
        ((one, replace(other, types="Mul")), ("Add", "Exp", "Mul")),
        ((one, other), ()),
    ):
        asked = first_asked(defect, False, runs, {DEFECT.name: kills})
        assert isinstance(asked, Named)
        assert asked.types == types


def test_a_rule_that_must_not_notice_is_asked_by_the_checks_that_notice_others() -> None:
    own, sharp, dear, gone = (
        kill("a.py::own", 1),
        kill("a.py::sharp", 2, B),
        kill("a.py::dear", 9, B),
        kill("a.py::gone", 1, B),
    )
    kept = replace(DEFECT, keeps=(B,))
    runs = _runs("a.py::own", "a.py::sharp", "a.py::dear")
    known = {DEFECT.name: (own,), "one": (gone, sharp, dear), "other": (dear,)}
    asked = first_asked(kept, False, runs, known)
    assert isinstance(asked, Named)
    nodes = [each.rpartition(":")[2] for each in asked.arguments if "::" in each]
    assert nodes == ["own", "sharp", "dear"]
    alone = first_asked(replace(kept, breaks=()), False, runs, known)
    assert isinstance(alone, Named)
    assert not any("own" in each for each in alone.arguments)
    # Without a recorded check, all checks of the rule run.
    assert not isinstance(first_asked(kept, False, runs, {DEFECT.name: (own,)}), Named)


def test_harm_is_looked_for_where_a_defect_claims_some() -> None:
    runs, known = _runs("a.py::own"), {DEFECT.name: (kill("a.py::own", 1, harm="hang"),)}
    for harm in (None, Harm.HANG):
        asked = first_asked(replace(DEFECT, harm=harm), False, runs, known)
        assert isinstance(asked, Named)
        assert asked.harm is (harm is not None)


def test_recorded_types_are_types_of_generated_operators() -> None:
    recorded = {each for kills in matrix.read().values() for each in kills if each.types}
    assert recorded
    known = {family.type for family in FAMILIES}
    assert {word for each in recorded for word in each.types.split()} <= known
    assert {each.check.partition("::")[0] for each in recorded} == {"cache_mode/test_generated.py"}


def test_a_profile_is_sampled_only_if_each_entry_of_its_list_has_a_check() -> None:
    known = {name: kills for name, kills in matrix.read().items() if VENDOR in name}
    recorded = [each.check for kills in known.values() for each in kills]
    others = [f"a.py::other{number:03}" for number in range(36)]
    (asked,) = first_of_profile("cann", False, _runs(*recorded, *others), known)
    assert isinstance(asked, Named)
    nodes = [each for each in asked.arguments if "::" in each]
    assert len(nodes) < len({*recorded, *others}) / 2
    assert 0 < sum("other" in each for each in nodes) < len(others) / 2
    first, *_ = known
    lacking = {name: kills for name, kills in known.items() if name != first}
    assert not isinstance(first_of_profile("cann", False, _runs(*recorded), lacking)[0], Named)
    assert len(first_of_profile("cann", True, _runs(*recorded), known)) == 2


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kills = {"one": (kill("a.py::b[c/d]", 1, harm="hang"), kill("a.py::e", 2, B, crash="killed"))}
    kills["two"] = (replace(kill("a.py::f", 3), types="Add Exp"),)
    matrix.write(kills, tmp_path / "kills.json")
    assert matrix.read(tmp_path / "kills.json") == kills
    assert matrix.read(tmp_path / "none.json") == {}


def test_the_record_has_every_check_once_and_in_order(tmp_path: Path) -> None:
    matrix.write(matrix.read(), tmp_path / "kills.json")
    assert (tmp_path / "kills.json").read_text() == matrix.KILLS.read_text()


def test_the_record_is_of_defects_and_checks_that_exist(pytester: pytest.Pytester) -> None:
    kills, defects = matrix.read(), load_defects()
    recorded = {name.partition(" (CANN ")[0] for name in kills if VENDOR not in name}
    assert recorded <= set(defects)
    collected = pytester.runpytest_subprocess(
        "--ascend-cache",
        "--ascend-stress=1steps",
        "--ascend-nodes=2",
        "--ascend-select=whole",
        "--collect-only",
        "-q",
        "--pyargs",
        PACKAGE,
    )
    collected_checks = {line.removeprefix(SUITE_NODES) for line in collected.outlines}
    # Some checks exist only in one edition of the documents.
    functions = {each.partition("[")[0] for each in collected_checks}
    recorded = {each.check for name, checks in kills.items() for each in checks}
    assert {each.partition("[")[0] for each in recorded} <= functions


def test_every_defect_and_rule_has_a_record() -> None:
    kills = matrix.read()
    judged = [
        replace(each, editions=(edition,))
        for each in load_defects().values()
        if each.breaks
        for edition in each.editions
    ]
    lacking = [
        matrix.name_of(each)
        for each in judged
        if not {*each.breaks} <= {kill.rule for kill in kills.get(matrix.name_of(each), ())}
    ]
    assert lacking == []  # if not, run ci/qualify --matrix
