"""``--ascend-baseline``: faults that are new or fixed since an earlier report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.contract import Delivered, Outcome, Verdict
from pytest_ascendcache.contract.deviations import BrokenPromise
from pytest_ascendcache.contract.facts import Aspect, Fact, outcome_fact
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.outcome import KEPT, STORED
from pytest_ascendcache.reports.baseline import Baseline, News
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import failing, record, report
from tests.warm_pytest import WarmPytest

RULE = "--ascend-rule=cache-mode/default-is-disable"
REUSED = outcome_fact(Outcome(Delivered.REUSED, KEPT), [Outcome(Delivered.COMPILED, STORED)])
CLAIM = Fact.of(Aspect.CLAIM, "run.changes == {}")
OTHER = "--ascend-rule=cache-mode/enable-stores"
DEFECT = "--ascend-defect=default-is-enable"


@pytest.fixture(scope="module")
def broken_then(warm_pytest: WarmPytest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a run with a broken rule, as text."""
    place = tmp_path_factory.mktemp("then")
    always = ("-p", "no:cacheprovider", f"--basetemp={place}/base", f"--rootdir={place}")
    words = (*always, "--ascend-cache", RULE, DEFECT, "--ascend-report=then.json")
    code = warm_pytest.run(words, place, place / "output", place / "errors", 600)
    assert code == pytest.ExitCode.TESTS_FAILED
    return (place / "then.json").read_text("utf-8")


@pytest.fixture
def directory(pytester: pytest.Pytester, broken_then: str) -> pytest.Pytester:
    """A directory with ``then.json``, the report of a run with a broken rule."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    (pytester.path / "then.json").write_text(broken_then, "utf-8")
    return pytester


def _run(directory: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return directory.runpytest_subprocess(
        "--ascend-cache", "--ascend-baseline=then.json", *arguments
    )


def test_what_was_broken_before_does_not_fail_the_run(directory: pytest.Pytester) -> None:
    result = _run(directory, RULE, DEFECT, "--ascend-report=now.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "known deviation 3  cache-mode/default-is-disable *",
            "cache-mode/default-is-disable, 3 checks: as in the baseline",
            "*against the baseline then.json*",
            "a report about reference with defect 'default-is-enable' 0.1.0*: */then.json",
            "as in the baseline: 3 checks of 1 rule",
            "nothing is new, nothing is fixed",
        ]
    )
    now = json.loads((directory.path / "now.json").read_text(encoding="utf-8"))
    assert {each["deviation"]["instead"] for each in now["checks"]} == {"fail"}
    assert now["baseline"]["same"] == 3


def test_on_workers_too(directory: pytest.Pytester) -> None:
    result = _run(directory, RULE, DEFECT, "-n2")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["as in the baseline: 3 checks of 1 rule"])


def test_what_was_fixed_is_named(directory: pytest.Pytester) -> None:
    result = _run(directory, RULE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["fixed  cache-mode/default-is-disable: pass, 3 checks"])


def test_what_is_new_fails_and_what_was_not_run_is_counted(directory: pytest.Pytester) -> None:
    result = _run(directory, OTHER, "--ascend-defect=stores-first-operator")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "new    cache-mode/enable-stores: fail, * check*",
            "broken in the baseline and not judged now: 3 checks",
        ]
    )


def test_a_report_made_with_a_baseline_can_be_one(directory: pytest.Pytester) -> None:
    _run(directory, RULE, DEFECT, "--ascend-report=then.json")
    result = _run(directory, RULE, DEFECT)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["as in the baseline: 3 checks of 1 rule"])


def _baseline(place: Path, *records: Any) -> Baseline:
    place.write_text(as_json(report(*records)), encoding="utf-8")
    return Baseline.read(place)


@pytest.mark.parametrize(
    ("verdict", "fact", "known"),
    [
        (Verdict.FAIL, REUSED, True),
        (Verdict.WARN, REUSED, True),
        (Verdict.FAIL, CLAIM, False),
        (Verdict.UNDECIDED, REUSED, False),
        (Verdict.PASS, REUSED, False),
        (Verdict.NOT_APPLICABLE, REUSED, False),
    ],
)
def test_only_the_same_fault_is_as_before(
    tmp_path: Path, verdict: Verdict, fact: Fact, known: bool
) -> None:
    then = record("a", verdict=verdict, facts=[fact.as_dict()])
    baseline = _baseline(tmp_path / "then.json", then)
    same, other = (BrokenPromise(then.rule, check, {}, (REUSED.code,)) for check in "ab")
    deviation = baseline.deviation(same, Verdict.FAIL)
    assert (deviation is not None) == known
    assert baseline.deviation(other, Verdict.FAIL) is None


@pytest.mark.parametrize(
    ("facts", "harm", "known"),
    [
        ((REUSED.code,), Harm.LOST_WORK, True),
        ((REUSED.code,), None, True),
        ((REUSED.code, CLAIM.code), None, False),
        ((CLAIM.code,), None, False),
        ((REUSED.code,), Harm.UNUSABLE, False),
    ],
)
def test_another_fault_of_the_same_check_is_new(
    tmp_path: Path, facts: tuple[str, ...], harm: Harm | None, known: bool
) -> None:
    then = record("a", verdict=Verdict.FAIL, message="it ended", facts=[REUSED.as_dict()])
    baseline = _baseline(tmp_path / "then.json", replace(then, harm="lost-work"))
    deviation = baseline.deviation(BrokenPromise(then.rule, "a", {}, facts, harm), Verdict.FAIL)
    assert (deviation is not None) is known


def test_what_a_list_knew_then_is_broken_beneath(tmp_path: Path) -> None:
    known = {"entry": "x", "reason": "so", "link": "", "instead": "fail"}
    then = replace(record("a", verdict=Verdict.KNOWN_DEVIATION), deviation=known)
    baseline = _baseline(tmp_path / "then.json", then)
    assert baseline.deviation(BrokenPromise(then.rule, "a", {}, ()), Verdict.FAIL) is not None


def test_what_was_judged_then_and_not_now_is_told(tmp_path: Path) -> None:
    baseline = _baseline(tmp_path / "then.json", record("a"), record("b"))
    news = News.of(baseline, [record("a", verdict=Verdict.NOT_APPLICABLE), record("b")])
    assert "passed in the baseline and not judged now: 1 check" in news.lines()


def test_a_baseline_that_judged_nothing_says_so(tmp_path: Path) -> None:
    baseline = _baseline(tmp_path / "then.json", record("a", verdict=Verdict.NOT_APPLICABLE))
    assert News.of(baseline, [record("a")]).lines()[1].startswith("the baseline judged nothing")


def test_what_cannot_be_told_now_is_neither_fixed_nor_as_before(tmp_path: Path) -> None:
    baseline = _baseline(tmp_path / "then.json", failing("a"), failing("b"))
    news = News.of(baseline, [record("a", verdict=Verdict.UNDECIDED), record("b")])
    assert [each.check for each in news.new] == ["a"]
    assert [each.check for each in news.fixed] == ["b"]
    assert news.not_judged == 1


def test_a_bad_baseline_is_refused_in_one_sentence(pytester: pytest.Pytester) -> None:
    (pytester.path / "then.json").write_text(
        '{"schema": 3, "toolchain": {"name": "a", "version": "1"}, "rules": [], "checks": [1]}'
    )
    result = pytester.runpytest_subprocess("--ascend-cache", "--ascend-baseline=then.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = "has no usable 'host'; write it again with a whole run."
    result.stderr.fnmatch_lines([f"ERROR: --ascend-baseline: */then.json {said}"])


def test_a_verdict_nobody_knows_is_refused(pytester: pytest.Pytester) -> None:
    odd = report(failing())
    odd["checks"][0]["verdict"] = "maybe"
    (pytester.path / "then.json").write_text(as_json(odd), encoding="utf-8")
    result = pytester.runpytest_subprocess("--ascend-cache", "--ascend-baseline=then.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*has no usable verdict of 'test_a.py::test_broken': 'maybe'; write it again *"]
    )
