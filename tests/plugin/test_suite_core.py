"""``--ascend-select``: a run takes the core unless options select the whole suite or a part."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from standins import install_atc

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import record, report
from tests.warm_pytest import WarmPytest

SUITE = ("--pyargs", PACKAGE)
SECURITY = f"{SUITE_NODES}robustness/test_security.py"


def collect(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    result = pytester.runpytest_subprocess(
        "--ascend-toolchain=reference", "--collect-only", "-q", *arguments
    )
    assert result.ret == 0
    return {line for line in result.outlines if line.startswith(SUITE_NODES)}


@pytest.fixture(scope="module")
def collected(
    warm_pytest: WarmPytest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., set[str]]:
    """A cached function that collects the suite with some options in an empty directory."""

    @functools.cache
    def collected(*options: str) -> set[str]:
        place = tmp_path_factory.mktemp("collected")
        always = ("-p", "no:cacheprovider", f"--basetemp={place}/base", "--collect-only", "-q")
        words = (*always, "--ascend-toolchain=reference", *options, *SUITE)
        assert warm_pytest.run(words, place, place / "output", place / "errors", 600) == 0
        lines = (place / "output").read_text("utf-8").splitlines()
        return {line for line in lines if line.startswith(SUITE_NODES)}

    return collected


def test_the_core_is_a_part_of_the_suite(collected: Callable[..., set[str]]) -> None:
    core, whole = collected(), collected("--ascend-select=whole")
    assert core < whole
    assert len(core) < len(whole) / 2
    files = [{each.partition("::")[0] for each in checks} for checks in (core, whole)]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    "part",
    [
        ("-k", "test_security", *SUITE),
        ("--ascend-rule=security/no-symlink-follow", *SUITE),
        ("--pyargs", f"{PACKAGE}.robustness.test_security"),
    ],
    ids=["expression", "rule", "module"],
)
def test_a_part_that_is_named_is_whole(pytester: pytest.Pytester, part: tuple[str, ...]) -> None:
    function = f"{SECURITY}::test_what_a_link_points_to_stays["
    checks = [each for each in collect(pytester, *part) if each.startswith(function)]
    assert len(checks) == 28


@pytest.mark.parametrize(("what", "thins"), [("core", True), ("whole", False), ("triples", False)])
def test_the_core_is_chosen_of_the_usual_combinations_alone(
    pytester: pytest.Pytester, what: str, thins: bool
) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_ascendcache.plugin.stash import settings_of

        def pytest_sessionstart(session):
            pytest.exit(f"takes the core: {settings_of(session.config).takes_core}", 0)
        """
    )
    result = pytester.runpytest_subprocess("--ascend-cache", f"--ascend-select={what}")
    assert f"takes the core: {thins}" in result.stdout.str() + result.stderr.str()


@pytest.mark.nightly  # finding combinations of three takes seconds
def test_more_combinations_are_not_thinned_out(pytester: pytest.Pytester) -> None:
    checks = collect(pytester, "--ascend-select=triples", *SUITE)
    assert sum("test_combinations.py::test_outcome[" in each for each in checks) > 300


def test_a_project_can_ask_for_all_of_it(
    pytester: pytest.Pytester, collected: Callable[..., set[str]]
) -> None:
    pytester.makeini("[pytest]\nascend_select = whole")
    assert collected() < collect(pytester, *SUITE)


def test_what_a_baseline_leaves_unsettled_is_asked_again(
    pytester: pytest.Pytester, collected: Callable[..., set[str]]
) -> None:
    check = min(collected("--ascend-select=whole") - collected())
    then = report(record(check, "aging/bad-values", Verdict.UNDECIDED))
    (pytester.path / "then.json").write_text(as_json(then))
    assert check in collect(pytester, "--ascend-baseline=then.json", *SUITE)


def test_what_the_core_decided_is_not_asked_again_by_the_whole_suite(
    pytester: pytest.Pytester, collected: Callable[..., set[str]]
) -> None:
    rooms = {each.partition("::")[0] for each in collected()} - {SECURITY}
    options = ["--ascend-toolchain=reference", "--ascend-resume=verdicts.jsonl"]
    options += [f"--deselect={each}" for each in rooms]
    first = pytester.runpytest_subprocess(*options, *SUITE)
    assert first.ret == 0
    core = first.parseoutcomes()["passed"]
    then = pytester.runpytest_subprocess(*options, "--ascend-select=whole", *SUITE)
    assert then.ret == 0
    then.stdout.fnmatch_lines([f"{core} of the verdicts are an earlier run's, *"])
    assert then.parseoutcomes()["passed"] > 0


@pytest.fixture
def atc(tmp_path: Path, standin_atc: Path) -> Path:
    return install_atc(tmp_path / "toolkit", "Ascend910B1", server=standin_atc)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_who_leaves_out_more_than_the_core_does_has_judged_a_part(
    pytester: pytest.Pytester,
    collected: Callable[..., set[str]],
    atc: Path,
    workers: tuple[str, ...],
) -> None:
    # Deselect checks of the whole suite, because the core replaces its own deselected checks.
    checks = {each.partition("[")[0] for each in collected("--ascend-select=whole")}
    arguments = [f"--deselect={each}" for each in checks if "::test_a_bad_debug" not in each]
    result = pytester.runpytest_subprocess(
        *(f"--ascend-atc={atc}", "--ascend-edition=8.0.RC3", "--ascend-report=report.json"),
        *workers,
        *arguments,
        *SUITE,
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "ascendcache: the core of the suite; all of it: --ascend-select=whole",
            "the core of the suite: * of * checks, which catch * of * known defects; more data "
            "types, moments and environments: --ascend-select=whole",
            "Not decided: only part of the suite was run, * check*.",
        ]
    )
    report = json.loads((pytester.path / "report.json").read_text())
    assert report["is_part"] is True
    assert report["suite"]["checks"] <= report["suite"]["of_checks"]
