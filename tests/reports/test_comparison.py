"""Several reports side by side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.files import ReportFileError, read_report
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import failing, page, record, report

COMMAND = [sys.executable, "-m", "pytest_ascendcache.reports.comparison"]


def _compare(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=directory, capture_output=True, text=True)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A directory with ``good.json``, ``bad.json`` and ``part.json``, which has one rule less."""
    alike, other = record("s", "cache-mode/enable-stores"), record("a")
    files = {
        "good.json": report(alike, other),
        "bad.json": report(
            alike, failing("a"), record("b"), toolchain={"name": "<atc>", "version": "8.5"}
        ),
        "part.json": report(record("a", verdict=Verdict.NOT_APPLICABLE)),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(as_json(content), encoding="utf-8")
    return tmp_path


def test_rules_that_differ_come_with_the_verdict_of_each_report(reports: Path) -> None:
    ended = _compare(reports, "good.json", "bad.json")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [
        "A  reference 0.1.0 (good.json)",
        "B  <atc> 8.5 (bad.json)",
        "",
        "                          A                B",
        "cache-mode/enable-reuses  pass 1           fail 1 (1 pass)",
        "",
        "1 rules differ, 1 are alike",
    ]


def test_a_rule_that_a_report_lacks_is_no_difference(reports: Path) -> None:
    ended = _compare(reports, "good.json", "part.json")
    assert "cache-mode/enable-reuses  pass 1            not applicable 1" in ended.stdout
    assert "1 rules differ, 0 are alike, 1 are not in every report" in ended.stdout


def test_reports_that_agree_have_no_table(reports: Path) -> None:
    ended = _compare(reports, "good.json", "good.json")
    assert ended.stdout.splitlines()[2:] == ["", "0 rules differ, 2 are alike"]


def test_the_page_has_the_differences_first(reports: Path) -> None:
    ended = _compare(reports, "good.json", "bad.json", "part.json", "-o", "page.html")
    assert ended.returncode == 0
    shown = page(reports / "page.html")
    assert shown.text.index("cache-mode/enable-reuses") < shown.text.index(
        "cache-mode/enable-stores"
    )
    assert "<atc> 8.5 (bad.json)" in shown.text
    assert len(shown.having("data-row")) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the following arguments are required: REPORT.json"),
        (["good.json"], "good.json alone cannot be compared; name two reports or more."),
        (["good.json", "none.json"], "none.json cannot be read: No such file or directory."),
        (["good.json", "."], ". cannot be read: Is a directory."),
        (["good.json", "text.json"], "text.json is no JSON; name a file that --ascend-report"),
        (["good.json", "bad.json", "-o", "no/page.html"], "no/page.html cannot be written: No"),
    ],
)
def test_what_cannot_be_compared_is_refused(reports: Path, arguments: list[str], said: str) -> None:
    (reports / "text.json").write_text("text", encoding="utf-8")
    ended = _compare(reports, *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "part", ["toolchain", "host", "totals", "rules", "checks", "accuracy", "rule level", "evidence"]
)
def test_a_damaged_report_is_one_sentence(reports: Path, part: str) -> None:
    odd: dict[str, Any] = report(failing())
    if part == "rule level":
        odd["rules"][0]["level"] = "perhaps"
    elif part == "evidence":
        odd["checks"][0]["evidence"] = []
    else:
        odd[part] = 5
    place = reports / "odd.json"
    place.write_text(as_json(odd), encoding="utf-8")
    with pytest.raises(ReportFileError, match="has no usable"):
        read_report(place)
