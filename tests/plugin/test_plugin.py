"""The plugin in a pytest process of its own, in an empty directory."""

from __future__ import annotations

import ast
import json
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

RULE = "--ascend-rule=cache-mode/default-is-disable"
"""Three quick checks."""


def _run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--ascend-cache", *arguments)


def test_without_the_flag_nothing_is_collected(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "ascendcache:" not in result.stdout.str()


def test_naming_the_package_leaves_users_tests_out(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_mine="def test_mine(): assert False")
    result = _run(suite, RULE, "--pyargs", "pytest_ascendcache.conformance")
    result.assert_outcomes(passed=3, deselected=result.parseoutcomes()["deselected"])


def test_users_naming_conventions_do_not_hide_the_suite(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\npython_files = check_*.py\npython_functions = check_*\n")
    result = _run(suite, RULE)
    assert result.parseoutcomes()["passed"] == 3


def test_header_summary_and_reports_of_one_run(suite: pytest.Pytester) -> None:
    """The header names toolchain and file system. The summary has a line for each rule and all
    six verdicts. JSON and JUnit name rule, source and verdict."""
    result = _run(suite, RULE, "--ascend-report=report.json", "--junitxml=junit.xml")
    assert result.ret == 0
    result.stdout.re_match_lines([r"ascendcache: reference \d.*, on \S+, \S+, \S*atime"])
    result.stdout.fnmatch_lines(
        [
            "*= ascend cache contract =*",
            "pass 3*cache-mode/default-is-disable*Without the option *",
            "1 rule: 1 pass, 0 fail, 0 warn, 0 known deviation, 0 not applicable, 0 undecided",
            "3 checks: 3 pass, 0 fail, 0 warn, 0 known deviation, 0 not applicable, 0 undecided",
        ]
    )
    report = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))
    assert report["schema"] == 3
    assert report["toolchain"]["name"] == "reference"
    assert report["totals"]["checks"] == {
        "pass": 3,
        "fail": 0,
        "warn": 0,
        "known deviation": 0,
        "not applicable": 0,
        "undecided": 0,
    }
    (rule,) = report["rules"]
    assert (rule["id"], rule["verdict"]) == ("cache-mode/default-is-disable", "pass")
    assert rule["title_zh"]
    assert all(check["evidence"]["steps"] for check in report["checks"])
    cases = [*ElementTree.parse(suite.path / "junit.xml").iter("testcase")]
    assert len(cases) == 3
    for case in cases:
        properties = {each.get("name"): each.get("value") for each in case.iter("property")}
        assert properties["rule"] == "cache-mode/default-is-disable"
        assert (properties["source"] or "").startswith("ATC --op_compiler_cache_mode")
        assert properties["verdict"] == "pass"


def test_a_broken_rule_tells_its_story_and_how_to_repeat_it(suite: pytest.Pytester) -> None:
    result = _run(suite, RULE, "--ascend-defect=default-is-enable")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*cause 1: cache-mode/default-is-disable*",
            "what     without --op_compiler_cache_mode the cache is used: *",
            "promise  The default is disable: no option given*",
            "broken   fail; stale kernel; 3 checks",
            "runs     run 1  enable *Add  compiled, entry stored",
            "         run 2  no cache mode  Add  reused, entry kept",
            "*<- expected: compiled, entry kept",
            "next     Until that is fixed, delete the cache directory *",
            "script   cause-1.sh beside the evidence *",
            "repeat   * --ascend-cache --ascend-defect=default-is-enable --pyargs *",
            "*= answer =*",
            "1 rule: 0 pass, 1 fail*",
            " 1  fail (stale kernel): without --op_compiler_cache_mode the cache is used:*",
            "Do not ship: 1 cause, 3 checks broken.",
        ]
    )
    (line,) = [each for each in result.outlines if each.startswith("repeat ")][:1]
    command = shlex.split(line.removeprefix("repeat"))
    again = suite.runpytest_subprocess(*command[command.index("pytest") + 1 :])
    again.assert_outcomes(failed=1)


def test_the_same_story_in_chinese(suite: pytest.Pytester) -> None:
    result = _run(suite, RULE, "--ascend-defect=default-is-enable", "--ascend-language=zh")
    result.stdout.fnmatch_lines(
        [
            "ascendcache：reference with defect *，运行于 *",
            "编译器运行 * 次，另有 * 次用于确认危害；算子 * 个",
            "涉及     失败；使用了过期算子；*",
            "*第 2 次  未指定缓存模式  Add  命中缓存，缓存未变",
            "不可发布：1 个原因，3 项检查未通过。",
            "判定对象：reference with defect *，内置参考实现，不代表 CANN",
        ]
    )


def test_help_is_chinese_too(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--help", "--ascend-language=zh")
    result.stdout.fnmatch_lines(["昇腾算子编译缓存: 判定对象:", "*用内置套件（*）判定*"])
    english = suite.runpytest_subprocess("--help", "--ascend-language=en")
    english.stdout.fnmatch_lines(["Ascend operator compile caches: what is judged:"])


def test_a_broken_should_rule_warns_and_fails_under_strict(suite: pytest.Pytester) -> None:
    arguments = (
        "--ascend-rule=cache-mode/key-ignores-names",
        "--ascend-defect=key-with-operator-name",
    )
    result = _run(suite, *arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*warn 1 (5 pass)*cache-mode/key-ignores-names*", "*1 warned*"])
    strict = _run(suite, *arguments, "--ascend-strict")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["*fail 1 (5 pass)*cache-mode/key-ignores-names*"])


def test_a_toolchain_that_refuses_marks_is_not_decidable(suite: pytest.Pytester) -> None:
    result = _run(suite, "--ascend-defect=never-hits", "--ascend-rule=debug/level-bypasses")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "POSITIVE CONTROL FAILED: an untouched canary under enable is not served*",
            "*undecided 28*debug/level-bypasses*",
            "28 checks: 0 pass, 0 fail, *, 28 undecided",
        ]
    )


def test_a_report_that_cannot_be_written_does_not_cost_the_summary(
    suite: pytest.Pytester,
) -> None:
    suite.makeconftest(
        """
        def pytest_collection_finish(session):
            (session.config.rootpath / "reports").rename(session.config.rootpath / "gone")
        """
    )
    (suite.path / "reports").mkdir()
    written = ("--ascend-report=reports/report.json", "--ascend-html=reports/page.html")
    result = _run(suite, RULE, *written)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["3 checks: 3 pass*"])
    for option in ("--ascend-report", "--ascend-html"):
        result.stdout.fnmatch_lines([f"ERROR: {option}=*cannot be written: *"])


def test_accuracy_is_in_both_reports(suite: pytest.Pytester) -> None:
    result = _run(suite, "--ascend-rule=impl-mode/accuracy", "--ascend-report=report.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["accuracy of delivered kernels*", "*operator*mode*max ulp*", "*Exp*high_precision*0.5*"]
    )
    rows = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))["accuracy"]
    by_mode: dict[str, list[float]] = {"high_precision": [], "high_performance": []}
    for row in rows:
        by_mode[row["mode"]].append(row["max_ulp"])
    assert len(by_mode["high_precision"]) == len(by_mode["high_performance"]) >= 5
    assert max(by_mode["high_precision"]) <= 1 < min(by_mode["high_performance"])


@pytest.mark.nightly
def test_workers_give_the_same_verdicts(suite: pytest.Pytester) -> None:
    arguments = ("--ascend-rule=debug/outputs", "--ascend-report=report.json")
    _run(suite, *arguments)
    alone = (suite.path / "report.json").read_text()
    result = _run(suite, *arguments, "-n", "2")
    assert result.ret == 0
    together = (suite.path / "report.json").read_text()

    def verdicts(text: str) -> list[tuple[str, str]]:
        return sorted((each["check"], each["verdict"]) for each in json.loads(text)["checks"])

    assert verdicts(alone) == verdicts(together)
    result.stdout.fnmatch_lines(["5 checks: 5 pass*"])


def test_stop_at_the_first_failure(suite: pytest.Pytester) -> None:
    result = _run(suite, RULE, "--ascend-defect=default-is-enable", "-x")
    result.stdout.fnmatch_lines(
        ["1 check: 0 pass, 1 fail*", "INCOMPLETE: 2 more checks were selected, but did not run"]
    )


def test_last_failed(pytester: pytest.Pytester) -> None:
    arguments = ("--ascend-cache", "--ascend-defect=oom-keeps-cache")
    rule = "--ascend-rule=debug/config-bypasses"
    first = pytester.runpytest_subprocess(*arguments, rule).parseoutcomes()
    again = pytester.runpytest_subprocess(*arguments, rule, "--lf").parseoutcomes()
    assert first["passed"] > 0
    assert again["failed"] == first["failed"] > 0
    assert "passed" not in again


def test_select_by_keyword(suite: pytest.Pytester) -> None:
    module = "pytest_ascendcache.conformance.cache_mode.test_cache_mode"
    result = _run(suite, "-k", "default_stores_nothing", "--pyargs", module)
    assert result.parseoutcomes()["passed"] == 1


def test_fixtures_serve_users_own_tests(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        from pytest_ascendcache.contract import CacheMode
        from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REUSED, STORED, Outcome

        def test_mine(ascend_cache, ascend_operators):
            add = ascend_operators["add"]
            run = ascend_cache.compile(add, mode=CacheMode.ENABLE)
            assert run[add] == Outcome(COMPILED, STORED)

        @pytest.mark.ascend_rule("cache-mode/enable-reuses")
        def test_mine_judges_a_rule(ascend_cache, ascend_operators):
            add = ascend_operators["add"]
            ascend_cache.warm(add)
            run = ascend_cache.compile(add, mode=CacheMode.ENABLE)
            assert run[add] == Outcome(REUSED, KEPT)
        """
    )
    suite.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)


def test_a_rule_that_does_not_exist_is_a_usage_error(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.ascend_rule("cache-mode/enable-reuse")
        def test_mine(): pass
        """
    )
    result = suite.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "ascend_rule('cache-mode/enable-reuse') names no rule" in result.stderr.str()


FAKES = {
    "crash": ("kill -SEGV $$", "atc stopped answering: 3 runs in a row crashed"),
    "garbage": (r"printf 'a\001b\377'", "reported success but did not deliver every operator"),
    "silent": ("exit 0", "reported success but did not deliver every operator"),
    "refuse": ("echo 'E10001: no licence'; exit 255", "exit status 255: E10001: no licence"),
    "hang": ("sleep 600 & sleep 600", "atc stopped answering: 3 runs in a row did not end"),
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_toolchain_that_cannot_run_is_an_error_never_a_pass(
    suite: pytest.Pytester, fake: str
) -> None:
    script, words = FAKES[fake]
    program = suite.path / "atc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    result = _run(suite, RULE, f"--ascend-atc={program}", "--ascend-timeout=0.5")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert words in result.stdout.str()
    failed = int("stopped answering" in words)
    last = f"3 checks: 0 pass, {failed} fail, *, {3 - failed} undecided"
    result.stdout.fnmatch_lines([last])


def test_the_plugin_imports_nothing_heavy() -> None:
    import subprocess

    script = (
        "import sys, pytest_ascendcache.plugin.hooks\n"
        "heavy = {'numpy', 'llvmlite', 'deepdiff', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print(sorted(m for m in sys.modules if m.startswith('pytest_ascendcache.')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy, ours = ended.stdout.splitlines()
    assert heavy == "[]"
    rooms = {name.split(".")[1] for name in ast.literal_eval(ours)}
    assert rooms <= {"plugin", "conformance", "files", "language"}


def test_a_run_without_a_defect_imports_none(tmp_path: Path) -> None:
    """In a new process, because the nursery's have imported everything."""
    import subprocess

    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    inside = 'pytest_ascendcache.qualification.defects.'\n"
        "    number = sum(each.startswith(inside) for each in sys.modules)\n"
        "    terminalreporter.write_line(f'defects: {number}')\n"
    )
    command = [sys.executable, "-m", "pytest", "--ascend-cache", RULE]
    for defect, imports in (((), False), (("--ascend-defect=unstored-fails",), True)):
        ended = subprocess.run(
            [*command, *defect], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ("defects: 0" in ended.stdout.splitlines()) is not imports


def test_a_toolchain_of_ones_own(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        from pytest_ascendcache.qualification.toolchain import reference_toolchain

        def pytest_ascendcache_toolchain(name, settings):
            if name == "mine":
                toolchain = reference_toolchain("process", settings.timeout)
                toolchain.name = "mine"
                return toolchain
        """
    )
    result = _run(suite, RULE, "--ascend-toolchain=mine")
    assert result.parseoutcomes()["passed"] == 3
    result.stdout.fnmatch_lines(["ascendcache: mine *"])


def test_workers_begin_with_what_costs_the_most_runs(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        class Begun:
            def __init__(self, worker):
                self.worker = worker

            def pytest_runtest_logstart(self, nodeid):
                with open("begun-" + self.worker, "a") as file:
                    file.write(nodeid + "\\n")

        def pytest_configure(config):
            if hasattr(config, "workerinput"):
                config.pluginmanager.register(Begun(config.workerinput["workerid"]))
        """
    )
    suite.makepyfile(test_mine="def test_mine(): pass")
    room = "pytest_ascendcache.conformance.cache_mode"
    cheap = [
        f"{room}.test_cache_mode::test_default_{what}_nothing" for what in ("stores", "serves")
    ]
    costly = f"{room}.test_scale::test_another_version_empties_every_chip"
    named = ("test_mine.py", "--pyargs", *cheap, costly)
    result = suite.runpytest_subprocess("--ascend-cache", *named, "-n", "2")
    assert result.ret == pytest.ExitCode.OK
    begun = [path.read_text().splitlines() for path in suite.path.glob("begun-*")]
    assert any("every_chip" in each[0] for each in begun)
    assert any("test_mine" in each[-1] for each in begun)
