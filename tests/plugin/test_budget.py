"""``--ascend-select=60runs``: as many checks as fit are run, and what was left out is reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from standins import install_atc

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.contract.editions import named
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import record, report

ATC = Path(sys.executable).with_name("ascendcache-atc")
RULE = "cache-mode/default-is-disable"
SUITE = ("--pyargs", PACKAGE)


@pytest.fixture
def atc(tmp_path: Path, standin_atc: Path) -> Path:
    return install_atc(tmp_path / "toolkit", "Ascend910B1", server=standin_atc)


def chosen(result: pytest.RunResult) -> set[str]:
    return {line for line in result.outlines if line.startswith(SUITE_NODES)}


def collect(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference", "--collect-only", "-q", *arguments, *SUITE
    )
    assert result.ret == 0
    return chosen(result)


def test_a_greater_budget_runs_more_and_smoke_is_one_of_sixty(pytester: pytest.Pytester) -> None:
    few, some, more = (collect(pytester, f"--ascend-select={n}runs") for n in (30, 60, 200))
    assert 10 < len(few) < len(some) < len(more) < 200
    assert collect(pytester, "--ascend-select=60runs") == some
    documents = {Path(line).parts[2] for line in some}
    assert {"cache_mode", "impl_mode", "incremental", "static_kernel"} <= documents


def test_only_checks_that_apply_are_chosen(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        f"--ascend-atc={ATC}", "--ascend-select=60runs", "--collect-only", "-q", *SUITE
    )
    documents = {Path(line).parts[2] for line in chosen(result)}
    assert documents <= {"cache_mode", "impl_mode", "robustness"}


def test_a_rule_has_a_budget_too(pytester: pytest.Pytester) -> None:
    checks = collect(pytester, "--ascend-rule=aging/bad-values", "--ascend-select=20runs")
    assert 0 < len(checks) <= 16


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_the_end_says_what_was_left_out(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_mine="def test_mine(): pass")
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference",
        "--ascend-select=20runs",
        "--ascend-rule=aging/bad-values",
        "--ascend-rule=cache-mode/default-is-disable",
        "--ascend-rule=cache-mode/parallel-force",  # fifteen runs
        "--ascend-report=report.json",
        *workers,
        "test_mine.py",
        PACKAGE,
        "--pyargs",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*a selection of checks (--ascend-select=20runs), not the whole suite",
            "--ascend-select=20runs: * of * checks were run; they catch at least * of * known "
            "defects (*%)",
            "not judged: 1 rule: cache-mode/parallel-force",
        ]
    )
    report = json.loads((pytester.path / "report.json").read_text())
    selection = report["selection"]
    assert selection["checks"] == len(report["checks"]) < selection["of_checks"]
    assert selection["rules_left_out"] == ["cache-mode/parallel-force"]
    assert result.parseoutcomes()["passed"] == selection["checks"] + 1  # and the user's test


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_a_baseline_leaves_unsettled_is_put_first(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    selected = collect(pytester, "--ascend-select=20runs", "--ascend-rule=aging/bad-values")
    every = collect(pytester, "--ascend-rule=aging/bad-values")
    other = min(every - selected)
    then = report(record(other, "aging/bad-values", Verdict.UNDECIDED))
    (pytester.path / "then.json").write_text(as_json(then))
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference",
        "--ascend-select=20runs",
        "--ascend-rule=aging/bad-values",
        "--ascend-baseline=then.json",
        "--ascend-report=report.json",
        "-v",
        *workers,
        *SUITE,
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["run first because of the baseline: 1 check"])
    document = json.loads((pytester.path / "report.json").read_text())
    assert document["selection"]["put_first"] == [other.removeprefix(SUITE_NODES)]
    checks = [each["check"] for each in document["checks"]]
    assert other in checks
    if not workers:
        ran = [each.split(" ")[0] for each in result.outlines if each.startswith(SUITE_NODES)]
        assert ran[0] == other


def test_rules_that_a_new_edition_promises_otherwise_are_put_first(
    pytester: pytest.Pytester,
) -> None:
    (pytester.path / "then.json").write_text(as_json(report(editions=["CANN 7.0"])))
    options = ("--ascend-edition=9.0", "--ascend-select=20runs", "--ascend-baseline=then.json")
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference", "--ascend-report=report.json", *options, *SUITE
    )
    assert result.ret == 0
    document = json.loads((pytester.path / "report.json").read_text())
    first = set(document["selection"]["put_first"])
    judged = {each["rule"] for each in document["checks"]}
    rules = {
        each["rule"]
        for each in document["checks"]
        if each["check"].removeprefix(SUITE_NODES) in first
    }
    then, now = (load_rules(named(each)) for each in ("7.0", "9.0"))
    assert rules
    assert rules < judged
    assert all(then[each].statement != now[each].statement for each in rules)


def test_a_selection_that_passes_decides_nothing(pytester: pytest.Pytester, atc: Path) -> None:
    arguments = (f"--ascend-atc={atc}", "--ascend-edition=8.0.RC3", "--ascend-select=20runs")
    rule = "--ascend-rule=aging/bad-values"
    result = pytester.runpytest_subprocess(*arguments, rule, *SUITE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["Not decided: the budget left out * checks of the suite."])


@pytest.mark.parametrize(
    "part",
    [
        (f"--ascend-rule={RULE}", *SUITE),
        pytest.param(("-k", "default_stores_nothing", *SUITE), marks=pytest.mark.nightly),
        ("--pyargs", f"{PACKAGE}.cache_mode.test_cache_mode::test_default_stores_nothing"),
    ],
    ids=["rule", "expression", "name"],
)
def test_a_part_that_passes_decides_nothing(
    pytester: pytest.Pytester, atc: Path, part: tuple[str, ...]
) -> None:
    arguments = (f"--ascend-atc={atc}", "--ascend-edition=8.0.RC3", "--ascend-report=report.json")
    result = pytester.runpytest_subprocess("--ascend-cache", *arguments, *part)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["Not decided: only part of the suite was run, * check*."])
    assert json.loads((pytester.path / "report.json").read_text())["is_part"] is True


def test_a_time_is_as_many_runs_as_fit(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference",
        "--ascend-select=2h",
        "--ascend-rule=cache-mode/default-is-disable",
        *SUITE,
    )
    assert result.ret == 0
    count = result.parseoutcomes()["passed"]
    result.stdout.fnmatch_lines([f"--ascend-select=2h: {count} of {count} checks were run; *"])


def test_a_time_is_refused_where_nothing_is_run(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--ascend-select=1m", "--collect-only", *SUITE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--collect-only runs nothing that could be measured*"])


def test_workers_that_leave_nothing_for_checks_are_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference", "--ascend-select=20runs", "-n", "7", *SUITE
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*with 7 workers the positive control alone takes 14 runs; *22runs*"]
    )


def test_a_time_that_no_run_fits_is_refused(pytester: pytest.Pytester) -> None:
    # With a clock that runs a hundred times as fast, every run seems to take seconds.
    pytester.makepyfile(
        hurried="""
        import time
        from types import SimpleNamespace
        from pytest_ascendcache.observation import control

        faster = {"monotonic": lambda: 100 * time.monotonic()}
        control.time = SimpleNamespace(**{**vars(time), **faster})
        """
    )
    options = ("-p", "hurried", f"--ascend-atc={ATC}", "--ascend-select=1s")
    result = pytester.runpytest_subprocess(*options, *SUITE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a run of atc takes * s as measured, so no check fits; *"])


def test_a_toolchain_gets_the_checks_that_can_judge_it(pytester: pytest.Pytester) -> None:
    program = f"--ascend-toolchain=op-compiler:{Path(ATC).with_name('ascendcache-op-compiler')}"
    result = pytester.runpytest_subprocess(program, "--ascend-select=60runs", "--co", "-q", *SUITE)
    chosen = [each for each in result.outlines if "::" in each]
    assert sum("/static_kernel/" in each for each in chosen) > 10
    assert not [each for each in chosen if "/cache_mode/" in each or "/impl_mode/" in each]
