"""The badge made from a report."""

from __future__ import annotations

import json

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.badge import message_and_colour


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


def test_a_run_writes_its_badge(pytester: pytest.Pytester) -> None:
    release = pytester.path / "release.toml"
    release.write_text("soc = 'Ascend910B1'\n[options]\nop_compiler_cache_mode = 'enable'\n")
    arguments = (f"--ascend-release={release}", "--ascend-rule=cache-mode/release-setting")
    arguments += ("--ascend-strict",)
    result = pytester.runpytest_subprocess(*arguments, "--ascend-badge=badge.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert json.loads((pytester.path / "badge.json").read_text()) == {
        "schemaVersion": 1,
        "label": "ascend cache",
        "message": "1 of 1 rules broken",
        "color": "red",
    }


def test_a_badge_has_a_place_of_its_own(pytester: pytest.Pytester) -> None:
    arguments = ("--ascend-cache", "--ascend-badge=x.json", "--ascend-report=x.json")
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    both = "--ascend-report=*/x.json and --ascend-badge=*/x.json are one file; name two."
    result.stderr.fnmatch_lines([f"ERROR: {both}"])
