"""The recorded kill matrix: it names what there is, and quick runs take the cheapest of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.loading import load_defects
from pytest_ascendcache.qualification.matrix import Kill

A, B = "cache-mode/enable-stores", "robust/stress"
DEFECT = replace(load_defects()["stores-nothing"], breaks=(A,), harm=None)


def kill(check: str, runs: int, rule: str = A, harm: str = "", crash: str = "") -> Kill:
    return Kill(runs, check, rule, harm, crash)


def chosen(defect: object, *kills: Kill) -> list[str]:
    there = [each.check for each in kills]
    return [each.check for each in matrix.cheapest(defect, kills, there)]  # type: ignore[arg-type]


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
        replace(DEFECT, keeps=(B,)),
        replace(DEFECT, crash=CrashKind.POWER_LOSS.value),
    ],
    ids=["a rule without record", "a harm nobody saw", "a rule must not notice", "nor simpler"],
)
def test_where_the_record_does_not_do_every_check_is_asked(defect: object) -> None:
    assert chosen(defect, kill("cheap", 2)) == []


def test_a_check_that_is_gone_is_not_asked() -> None:
    assert matrix.cheapest(DEFECT, [kill("gone", 1), kill("there", 3)], ["there"]) == [
        kill("there", 3)
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kills = {"one": (kill("a.py::b[c/d]", 1, harm="hang"), kill("a.py::e", 2, B, crash="killed"))}
    matrix.write(kills, tmp_path / "kills.json")
    assert matrix.read(tmp_path / "kills.json") == kills
    assert matrix.read(tmp_path / "none.json") == {}
