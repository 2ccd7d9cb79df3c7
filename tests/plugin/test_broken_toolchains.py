"""Toolchains that are broken in one way: one cause, told as what it is, and nothing is run for it
that cannot tell anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance.costs import is_elementary, runs_of

REFERENCE = f"{sys.executable} -m pytest_ascendcache.reference.atc"
FORCE = "cache-mode/force-purges-soc"


def _judged(suite: pytest.Pytester, script: str, *arguments: str) -> dict[str, Any]:
    """The report about an atc that is this shell script around the reference, ``$n`` being the
    number of its run."""
    program = suite.path / "atc"
    count = f"echo >> {suite.path}/runs; n=$(wc -l < {suite.path}/runs)"
    program.write_text(f"#!/bin/bash\n{count}\n{script}\n")
    program.chmod(0o755)
    suite.runpytest_subprocess(
        f"--ascend-atc={program}",
        "--ascend-edition=8.0.RC3",
        "--ascend-report=report.json",
        *arguments,
    )
    report: dict[str, Any] = json.loads((suite.path / "report.json").read_text())
    return report


@pytest.mark.parametrize(("selected", "number"), [("core", 21), ("60runs", 17)])
def test_elementary_checks_come_first_and_are_cheap(
    suite: pytest.Pytester, selected: str, number: int
) -> None:
    options = ("--ascend-toolchain=reference", f"--ascend-select={selected}")
    result = suite.runpytest_subprocess("--ascend-cache", *options, "--collect-only", "-q")
    checks = [each.rpartition("conformance/")[2] for each in result.outlines if "::" in each]
    first = [each for each in checks if is_elementary(each)]
    assert checks[: len(first)] == first
    functions = {each.partition("[")[0] for each in first}
    assert len(functions) == number
    for document in ("cache_mode", "impl_mode", "incremental", "static_kernel"):
        assert sum(runs_of(each) for each in first if each.startswith(f"{document}/")) < 18


def _runs(suite: pytest.Pytester) -> int:
    return len((suite.path / "runs").read_text().splitlines())


def test_what_rests_on_a_broken_promise_is_not_run(suite: pytest.Pytester) -> None:
    without = f'exec {REFERENCE} "${{@/cache_mode=force/cache_mode=enable}}"'
    rules = (f"--ascend-rule={FORCE}", "--ascend-rule=cache-mode/force-then-enable")
    report = _judged(suite, without, *rules)
    (cause,) = report["causes"]
    assert cause["headline"].startswith("--op_compiler_cache_mode=force has no effect")
    assert (cause["verdict"], list(cause["rules"])) == ("fail", [FORCE])
    needing = [each for each in report["checks"] if each["evidence"]["needs"]]
    assert cause["not_judged"] == len(needing) == len(report["checks"]) - 1 > 5
    assert {each["evidence"]["starts"] for each in needing} == {0}
    assert {each["verdict"] for each in needing} == {"undecided"}


CRASHES = {
    "before it does anything": "[ $n = 4 ] && kill -SEGV $$",
    "after its work": f'[ $n = 4 ] && {{ {REFERENCE} "$@"; kill -SEGV $$; }}',
    "below a shell": "[ $n = 4 ] && exit 139",
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_that_does_not_come_again_blames_no_promise(
    suite: pytest.Pytester, crash: str
) -> None:
    script = f'{CRASHES[crash]}\nexec {REFERENCE} "$@"'
    report = _judged(suite, script, "--ascend-rule=cache-mode/default-is-disable")
    (cause,) = report["causes"]
    assert list(cause["rules"]) == ["robust/runs-end"]
    starts = sum(each["evidence"]["starts"] for each in report["checks"])
    assert cause["reason"] == f"atc crashed in 1 of {starts} runs, not again with the same options"
    assert (cause["verdict"], cause["harm"]) == ("fail", "crash")


def test_a_crash_that_comes_again_is_the_options_own(suite: pytest.Pytester) -> None:
    script = f'[[ "$*" = *=force* ]] && kill -SEGV $$\nexec {REFERENCE} "$@"'
    report = _judged(suite, script, f"--ascend-rule={FORCE}")
    (cause,) = report["causes"]
    assert (list(cause["rules"]), cause["harm"]) == ([FORCE], "crash")


def test_a_toolchain_that_answers_no_more_stops_the_run(suite: pytest.Pytester) -> None:
    script = f'[ $n -ge 5 ] && kill -SEGV $$\nexec {REFERENCE} "$@"'
    report = _judged(suite, script, "--ascend-rule=cache-mode/enable-reuses")
    (cause,) = report["causes"]
    assert cause["reason"] == (
        "atc stopped answering: 3 runs in a row crashed, the first with "
        "--op_compiler_cache_mode=enable; the rest was not tried"
    )
    assert cause["not_judged"] + len(cause["checks"]) + 1 >= len(report["checks"])
    assert _runs(suite) == 8  # three of them, and a plain one


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "worker"])
def test_habits_are_told_in_a_sentence(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    noise = "head -c 3000000 /dev/zero; sleep 300 &"
    asked = ("--ascend-rule=cache-mode/release-setting", *LITTLE, *workers)
    report = _judged(suite, f'{noise}\n{REFERENCE} "$@"', *asked)
    assert report["totals"]["checks"]["pass"] == 1
    assert report["notices"] == [
        "atc prints up to 3 MB a run; the last 16 KB of it are kept",
        f"atc leaves processes behind: {_runs(suite)} processes after {_runs(suite)} runs; they "
        "were ended",
    ]


LITTLE = ("--ascend-rule=cache-mode/default-is-disable", "-k=default_stores_nothing")


def test_what_a_toolchain_cannot_be_asked_is_said(suite: pytest.Pytester) -> None:
    rules = ["for-all", "by-dtype", "unsupported", "user-copy", "rejects-bad"]
    asked = [f"--ascend-rule=impl-mode/{each}" for each in rules]
    report = _judged(
        suite, f'exec {REFERENCE} "$@"', *asked, "-k=missing.ini or not rejects_bad and not refused"
    )
    left = {each["rule"]: each["reason"] for each in report["not_judged"]}
    assert left.keys() == {f"impl-mode/{each}" for each in rules[:-1]}
    assert all("export ASCEND_OPP_PATH=DIR" in each for each in left.values())


def test_the_program_that_does_not_start_is_the_only_cause(suite: pytest.Pytester) -> None:
    lost = "libascend_hal.so: cannot open shared object file"
    program = f"echo 'atc: error while loading shared libraries: {lost}' >&2; exit 127"
    report = _judged(suite, program, "--ascend-rule=cache-mode/directory-precedence")
    (cause,) = report["causes"]
    assert lost in cause["reason"]
    assert _runs(suite) == 2
    assert Path(report["toolchain"]["program"]) == suite.path / "atc"
