"""``ascendcache-compare``: several reports side by side."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.comparison import compare
from pytest_ascendcache.reports.files import ReportFileError, read_report
from pytest_ascendcache.reports.json_report import as_json
from pytest_ascendcache.reports.records import VerdictRecord
from tests.sample_reports import failing, page, record, report

COMMAND = [sys.executable, "-m", "pytest_ascendcache.reports.comparison"]


def _compare(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=directory, capture_output=True, text=True)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A directory with ``good.json``, ``bad.json``, and ``part.json``, which lacks a rule."""
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


STORES = record("s", "cache-mode/enable-stores")


def test_rules_that_differ_come_with_the_verdict_of_each_report(reports: Path) -> None:
    ended = _compare(reports, "good.json", "bad.json")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [
        "A  reference 0.1.0 (good.json)",
        "B  <atc> 8.5 (bad.json)",
        "",
        "                          A       B",
        "cache-mode/enable-reuses  pass 1  fail 1 (1 pass)",
        "",
        "1 rule differs, 1 has the same result",
    ]


def test_a_rule_that_a_report_lacks_is_no_difference(reports: Path) -> None:
    ended = _compare(reports, "good.json", "part.json")
    assert "cache-mode/enable-reuses  pass 1  not applicable 1" in ended.stdout
    assert "1 rule differs, 0 have the same result, 1 is missing from some report" in ended.stdout


def test_reports_that_agree_have_no_table(reports: Path) -> None:
    ended = _compare(reports, "good.json", "good.json")
    assert ended.stdout.splitlines()[2:] == ["", "0 rules differ, 2 have the same result"]


@pytest.mark.parametrize(
    ("language", "cells", "counts"),
    [
        ("en", "pass 1  fail 1, files outside touched", "1 rule differs, 0 have the same result"),
        ("zh", "通过 1  失败 1, 改动缓存之外的文件", "1 条规则的结论不同，0 条相同"),
    ],
)
def test_harm_is_told_in_words_of_the_language(
    tmp_path: Path, language: str, cells: str, counts: str
) -> None:
    outside = replace(record("a", verdict=Verdict.FAIL), harm="outside-touched")
    before = _written(tmp_path / "before.json", record("a"))
    now = _written(tmp_path / "now.json", outside)
    ended = _compare(tmp_path, before, now, "-o", "page.html", f"--language={language}")
    assert ended.stdout.splitlines()[4:] == [f"cache-mode/enable-reuses  {cells}", "", counts]
    shown = page(tmp_path / "page.html").text
    assert "outside-touched" not in shown
    assert "files outside touched" in shown
    assert "改动缓存之外的文件" in shown


def test_columns_of_many_reports_have_names_of_their_own() -> None:
    files = [(Path(f"{number}.json"), report(record("a"))) for number in range(28)]
    assert compare(files).letters[24:] == ["Y", "Z", "AA", "AB"]


def _known(verdict: str, check: str = "a") -> VerdictRecord:
    deviation = {"entry": "x", "reason": "so", "link": "", "instead": verdict}
    return replace(record(check, verdict=Verdict.KNOWN_DEVIATION), deviation=deviation)


def _written(place: Path, *records: VerdictRecord) -> str:
    place.write_text(as_json(report(*records)), encoding="utf-8")
    return place.name


def test_a_list_of_known_deviations_makes_no_difference(tmp_path: Path) -> None:
    listed = _written(tmp_path / "listed.json", _known("fail"), record("b"))
    bare = _written(tmp_path / "bare.json", record("a", verdict=Verdict.FAIL), record("b"))
    ended = _compare(tmp_path, listed, bare, "--fail-on-worse")
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[2:] == ["", "0 rules differ, 1 has the same result"]


def test_a_report_that_judged_nothing_says_so(tmp_path: Path) -> None:
    good = _written(tmp_path / "good.json", record("a"))
    nothing = _written(tmp_path / "nothing.json", record("a", verdict=Verdict.NOT_APPLICABLE))
    ended = _compare(tmp_path, good, nothing, "-o", "page.html")
    assert ended.returncode == 0
    assert "reference 0.1.0 (nothing.json) judged nothing: none of 1 check was" in ended.stdout
    chinese = "reference 0.1.0 (nothing.json) 没有判定任何内容：1 项检查均无结论"
    assert chinese in _compare(tmp_path, good, nothing, "--language=zh").stdout
    assert chinese in page(tmp_path / "page.html").text
    assert _compare(tmp_path, nothing, nothing, "--fail-on-worse").returncode == 1


LOST = replace(record("a", verdict=Verdict.WARN), harm="lost-work")


@pytest.mark.parametrize(
    ("then", "now", "worse"),
    [
        ([record("a")], [record("a")], False),
        ([record("a")], [record("a", verdict=Verdict.WARN)], True),
        ([record("a")], [record("a", verdict=Verdict.UNDECIDED), record("b")], True),
        ([record("a", verdict=Verdict.FAIL)], [record("a")], False),
        ([_known("warn")], [record("a", verdict=Verdict.WARN)], False),
        ([_known("warn")], [_known("fail")], True),
        ([LOST], [replace(LOST, harm="misplaced")], False),
        ([LOST], [replace(LOST, harm="hang")], True),
        ([LOST], [LOST, replace(LOST, check="b")], True),
        ([record("a", verdict=Verdict.NOT_APPLICABLE), STORES], [record("a"), STORES], False),
        ([record("a"), STORES], [record("a", verdict=Verdict.NOT_APPLICABLE), STORES], True),
        ([record("a"), STORES], [STORES], True),
        ([STORES], [record("a", verdict=Verdict.WARN), STORES], True),
    ],
)
def test_what_is_worse(then: list[VerdictRecord], now: list[VerdictRecord], worse: bool) -> None:
    files = [(Path("then.json"), report(*then)), (Path("now.json"), report(*now))]
    assert compare(files).worse == (["cache-mode/enable-reuses"] if worse else [])


def test_fail_on_worse_sets_the_exit_status(reports: Path) -> None:
    assert _compare(reports, "good.json", "bad.json").returncode == 0
    ended = _compare(reports, "good.json", "bad.json", "--fail-on-worse")
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1] == "worse: cache-mode/enable-reuses"
    assert _compare(reports, "bad.json", "good.json", "--fail-on-worse").returncode == 0


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
    ("arguments", "phrase"),
    [
        ([], "the following arguments are required: REPORT.json"),
        (["good.json"], "good.json alone cannot be compared; name two reports or more."),
        (["good.json", "."], ". cannot be read: Is a directory."),
        (["good.json", "bad.json", "-o", "bad.json"], "bad.json would replace a report that is"),
        (
            ["good.json", "bad.json", "-o", "no/page.html"],
            "/no does not exist; create it or name another.",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    reports: Path, arguments: list[str], phrase: str
) -> None:
    before = (reports / "bad.json").read_bytes()
    ended = _compare(reports, *arguments)
    assert ended.returncode == 2
    assert (reports / "bad.json").read_bytes() == before
    assert phrase in ended.stderr
    assert ended.stdout == ""
    assert not (reports / "no").exists()


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
