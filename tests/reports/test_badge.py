"""The badge made from a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.badge import main, message_and_colour
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import record, report


@pytest.mark.parametrize(
    ("rules", "missing", "badge"),
    [
        ({"pass": 78}, 0, ("78 rules pass", "brightgreen")),
        ({"pass": 70, "not applicable": 8}, 0, ("70 rules pass", "brightgreen")),
        (
            {"pass": 70, "known deviation": 3},
            0,
            ("70 of 73 rules pass, 3 known deviations", "yellowgreen"),
        ),
        (
            {"pass": 70, "warn": 1, "known deviation": 2},
            0,
            ("70 of 73 rules pass, 1 warn", "yellow"),
        ),
        ({"pass": 70, "undecided": 1, "warn": 4}, 0, ("1 of 75 rules undecided", "orange")),
        ({"pass": 70, "fail": 2, "undecided": 1}, 5, ("2 of 73 rules broken", "red")),
        ({"pass": 70}, 1, ("incomplete", "orange")),
        ({"not applicable": 8}, 0, ("nothing judged", "lightgrey")),
        ({}, 0, ("nothing judged", "lightgrey")),
    ],
)
def test_a_badge_says_the_worst(
    rules: dict[str, int], missing: int, badge: tuple[str, str]
) -> None:
    counts = {verdict.value: rules.get(verdict.value, 0) for verdict in Verdict}
    report = {"totals": {"rules": counts}, "checks_without_verdict": missing}
    assert message_and_colour(report) == badge


def test_a_badge_is_not_green_where_a_budget_left_checks_out() -> None:
    counts = {verdict.value: 30 * (verdict is Verdict.PASS) for verdict in Verdict}
    report = {
        "totals": {"rules": counts},
        "checks_without_verdict": 0,
        "selection": {"checks": 40, "of_checks": 897},
    }
    assert message_and_colour(report) == ("30 rules pass within a budget", "lightgrey")


def test_a_badge_is_made_from_a_report(pytester: pytest.Pytester) -> None:
    release = pytester.path / "release.toml"
    release.write_text("soc = 'Ascend910B1'\n[options]\nop_compiler_cache_mode = 'enable'\n")
    arguments = (f"--ascend-release={release}", "--ascend-rule=cache-mode/release-setting")
    arguments += ("--ascend-strict",)
    result = pytester.runpytest_subprocess(*arguments, "--ascend-report=report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for _ in range(2):  # a newer badge replaces the older one
        assert main(["report.json", "badge.json"]) == 0
    assert json.loads((pytester.path / "badge.json").read_text()) == {
        "schemaVersion": 1,
        "label": "ascend cache",
        "message": "1 of 1 rules broken",
        "color": "red",
    }


@pytest.mark.parametrize(
    ("source", "place", "error"),
    [
        ("absent.json", "badge.json", "absent.json cannot be read: No such file"),
        ("mine.txt", "badge.json", "mine.txt"),
        ("report.json", "mine.txt", "mine.txt exists and is no badge; name another file"),
        ("report.json", "no/badge.json", "no/badge.json cannot be written: "),
    ],
)
def test_a_badge_costs_no_file_of_ones_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    place: str,
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.json").write_text(as_json(report(record())))
    with pytest.raises(SystemExit) as raised:
        main([source, place])
    assert raised.value.code == 2
    assert error in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "mine"
