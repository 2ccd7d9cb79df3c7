"""What a command collects: the plugin alone decides, in every directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.parts import DOCUMENTS

ROOT = Path(__file__).parents[2]
STRESS = {"stress"}
OF_OPTIONS = {
    "--ascend-cache": set(DOCUMENTS),
    "--ascend-atc=./atc": set(DOCUMENTS),
    "--ascend-defect=never-hits": set(DOCUMENTS),
    "--ascend-stress=10s": STRESS,
    "--ascend-cache --ascend-stress=5steps": STRESS,
    "--ascend-nodes=2": {"shared"},
    "--ascend-audit=cache": {"audit"},
    "--ascend-cache --ascend-audit=cache": {*DOCUMENTS, "audit"},
    "--ascend-stress=10s --ascend-audit=cache": {*STRESS, "audit"},
}
"""Options, and the folders of the suite whose checks they collect."""


@pytest.fixture
def project(suite: pytest.Pytester) -> pytest.Pytester:
    """A user's project whose own tests cannot even be imported, with an atc and a cache."""
    suite.makeini("[pytest]\ntestpaths = tests\naddopts = -p no:cacheprovider\n")
    suite.mkdir("tests").joinpath("test_mine.py").write_text("import nothing_of_this_name\n")
    suite.path.joinpath("test_beside.py").write_text("import nothing_of_this_name\n")
    program = suite.path / "atc"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    entry = suite.path / "cache/kernel_cache/Ascend910B1" / f"te_exp_{'0' * 64}.json"
    entry.parent.mkdir(parents=True)
    entry.touch()
    return suite


def _folders(result: pytest.RunResult) -> set[str]:
    """The folders of the suite, and other files, among what was collected."""
    files = (line.partition("::")[0] for line in result.outlines if "::" in line)
    of_suite = "pytest_ascendcache/conformance/"
    return {
        each.removeprefix(of_suite).rpartition("/")[0] if each.startswith(of_suite) else each
        for each in files
    }


@pytest.mark.parametrize("options", OF_OPTIONS)
def test_options_collect_exactly_what_they_name(project: pytest.Pytester, options: str) -> None:
    look = ("--collect-only", "-q")
    result = project.runpytest_subprocess(*options.split(), *look)
    assert result.ret == pytest.ExitCode.OK
    assert _folders(result) == OF_OPTIONS[options]


def test_the_smallest_selection_has_each_document(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("--ascend-select=60runs", "--collect-only", "-q")
    assert {"cache_mode", "impl_mode", "incremental", "static_kernel"} <= _folders(result)
    assert _folders(result) <= set(DOCUMENTS)


@pytest.mark.parametrize("option", ["--ascend-doctor", "--ascend-rules=cache-mode/enable-stores"])
def test_looking_around_needs_no_test_of_the_project(project: pytest.Pytester, option: str) -> None:
    for named in ((), ("tests",)):
        result = project.runpytest_subprocess(option, *named)
        assert "nothing_of_this_name" not in result.stdout.str()
        assert result.ret == pytest.ExitCode.OK


def test_workers_collect_the_same(project: pytest.Pytester) -> None:
    rule = "--ascend-rule=cache-mode/default-is-disable"
    result = project.runpytest_subprocess(rule, "-n", "2")
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] == 3


def test_named_tests_run_and_nothing_else(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_named="""
        import pytest

        @pytest.mark.ascend_rule("cache-mode/enable-stores")
        def test_named(ascend_cache, ascend_operators):
            ascend_cache.warm(ascend_operators["add"])

        def test_without_a_rule(ascend_cache):
            pass
        """
    )
    result = project.runpytest_subprocess("--ascend-cache", "test_named.py")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["pass 1*cache-mode/enable-stores*"])
    alone = project.runpytest_subprocess("--ascend-cache", "test_named.py", "-k", "without")
    assert alone.ret == pytest.ExitCode.OK
    both = ("--ascend-cache", "test_named.py", "--pyargs", "pytest_ascendcache.conformance")
    result = project.runpytest_subprocess(*both, "--collect-only", "-q")
    assert _folders(result) == {"test_named.py", *DOCUMENTS}
    audited = ("test_named.py", "--ascend-audit=cache", "--collect-only", "-q")
    assert _folders(project.runpytest_subprocess(*audited)) == {"test_named.py", "audit"}


def test_a_name_that_workers_do_not_find_judges_nothing(project: pytest.Pytester) -> None:
    """xdist drops what its workers say."""
    name = "pytest_ascendcache.conformance.no_such"
    result = project.runpytest_subprocess("--ascend-cache", "-n", "2", "--pyargs", name)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines("NOTHING WAS JUDGED: no check was collected; without -n*")


def test_a_projects_settings_do_not_hide_its_tests(project: pytest.Pytester) -> None:
    """Where the configuration asks for the suite, the command line asks for both."""
    project.makeini("[pytest]\ntestpaths = mine\naddopts = --ascend-cache\n")
    project.mkdir("mine").joinpath("test_mine.py").write_text("def test_mine(): pass\n")
    collected = _folders(project.runpytest_subprocess("--collect-only", "-q"))
    assert collected == {"mine/test_mine.py", *DOCUMENTS}


def test_this_checkout_is_a_directory_like_any_other(pytester: pytest.Pytester) -> None:
    options = ("--ascend-cache", "--ascend-toolchain=reference", "--collect-only", "-q")
    result = pytester.runpytest_subprocess(
        "--rootdir", ROOT, "-c", ROOT / "pyproject.toml", *options
    )
    assert _folders(result) == set(DOCUMENTS)


def test_a_stress_run_is_one_check(project: pytest.Pytester) -> None:
    options = (
        "--ascend-ranks=2",
        "--override-ini=ascend_stress_operators=2",
        "--ascend-stress=2steps",
    )
    result = project.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes() == {"passed": 1}
