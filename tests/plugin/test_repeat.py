"""``repeat`` lines: the command in such a line finds the same broken promise."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

BROKEN = {
    "--ascend-defect=cann": (
        *("aging/bad-values", "debug/rejects-bad-file", "impl-mode/unsupported"),
        *("robust/heals-damaged-entry", "robust/same-key-race"),
        *("security/no-path-escape", "combinations/outcome"),
    ),
    "--ascend-defect=rank-is-always-0": ("ranks/directory",),
    "--ascend-defect=static-kernels-always-on": ("static-kernel/off-by-default",),
}
"""Rules broken by a profile and two defects, of all kinds of checks: plain, cells, races, ranks,
packages."""

CACHE_MODE = "pytest_ascendcache.conformance.cache_mode.test_cache_mode"


def _broken(report: Path) -> dict[str, dict[str, Any]]:
    """Return the records of all checks except those that passed or were not applicable."""
    records = json.loads(report.read_text())["checks"]
    return {
        each["check"]: each for each in records if each["verdict"] not in ("pass", "not applicable")
    }


@pytest.mark.parametrize(
    "breaker",
    [pytest.param(each, marks=() if "rank" in each else pytest.mark.nightly) for each in BROKEN],
)
def test_every_line_of_a_run_breaks_its_promise_again_by_itself(
    suite: pytest.Pytester, breaker: str
) -> None:
    chosen = [f"--ascend-rule={rule}" for rule in BROKEN[breaker]]
    suite.runpytest_subprocess("--ascend-cache", breaker, "--ascend-report=all.json", *chosen)
    broken = _broken(suite.path / "all.json")
    # One check of each rule is enough: the others differ only in their parameters.
    lines = {record["rule"]: record for record in broken.values()}
    assert set(lines) == set(BROKEN[breaker])
    elsewhere = suite.mkdir("elsewhere")
    for number, record in enumerate(lines.values()):
        words = shlex.split(record["repeat"])
        assert words[:3] == [sys.executable, "-m", "pytest"] or words[0] == "pytest"
        arguments = words[words.index("pytest") + 1 :]
        one = elsewhere / f"{number}.json"
        suite.runpytest_subprocess(*arguments, f"--ascend-report={one}")
        again = _broken(one)
        assert list(again) == [record["check"]], record["repeat"]
        assert again[record["check"]]["verdict"] == record["verdict"], record["repeat"]


def test_a_line_works_in_a_shell_that_does_not_know_the_environment(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    check = f"{CACHE_MODE}::test_enable_stores_a_valid_entry[add]"
    defect = ("--ascend-cache", "--ascend-defect=stores-nothing")
    result = suite.runpytest_subprocess(*defect, "--pyargs", check)
    line = next(each for each in result.outlines if each.startswith("repeat "))
    command = line.removeprefix("repeat").strip()
    assert command.startswith(f"{sys.executable} -m pytest --ascend-cache")
    assert suite.run("sh", "-c", f"{command} -p no:cacheprovider").ret == 1


def test_a_line_of_ones_own_test_works_in_any_directory(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = suite.mkdir("below")
    (below / "test_mine.py").write_text(
        "import pytest\n\n\n"
        "@pytest.mark.ascend_rule('cache-mode/enable-stores')\n"
        "@pytest.mark.parametrize('word', ['a b'])\n"
        "def test_mine(word):\n"
        "    assert not word\n"
    )
    monkeypatch.chdir(below)
    result = suite.runpytest_subprocess("test_mine.py", "--ascend-cache", "-k", "test_mine")
    line = next(each for each in result.outlines if each.startswith("repeat "))
    words = shlex.split(line.removeprefix("repeat"))
    assert words[-1] == f"{below}/test_mine.py::test_mine[a b]"
    monkeypatch.chdir("/")
    again = suite.runpytest_subprocess(*words[words.index("pytest") + 1 :])
    again.assert_outcomes(failed=1)


def test_a_line_brings_along_what_the_project_needs(suite: pytest.Pytester) -> None:
    """Settings that the user names, modules beside the tests, and a toolchain of conftest.py."""
    (suite.path / "ours").mkdir()
    (suite.path / "ours/__init__.py").write_text("WORD = 'a b'\n")
    (suite.path / "checks").mkdir()
    (suite.path / "other.ini").write_text("[pytest]\npython_functions = verify_*\n")
    (suite.path / "checks/test_mine.py").write_text(
        "import pytest\nfrom ours import WORD\n\n\n"
        "@pytest.mark.ascend_rule('cache-mode/enable-stores')\n"
        "def verify_mine(ascend_toolchain):\n"
        "    assert not WORD\n"
    )
    (suite.path / "checks/conftest.py").write_text(
        "from pytest_ascendcache.qualification.toolchain import reference_toolchain\n\n\n"
        "def pytest_ascendcache_toolchain(name, settings):\n"
        "    return reference_toolchain() if name == 'ours' else None\n"
    )
    options = ("-c", "other.ini", "--ascend-cache", "--ascend-toolchain=ours", "checks")
    result = suite.runpytest_subprocess(*options)
    (line,) = [each for each in result.outlines if each.startswith("repeat ")]
    command = f"cd / && {line.removeprefix('repeat').strip()} -p no:cacheprovider"
    again = suite.run("sh", "-c", command)
    assert "not 'a b'" in again.stdout.str()
    assert again.ret == pytest.ExitCode.TESTS_FAILED


def test_a_line_of_the_suite_finds_the_toolchain_of_a_conftest(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        "from pytest_ascendcache.qualification.toolchain import reference_toolchain\n\n\n"
        "def pytest_ascendcache_toolchain(name, settings):\n"
        "    if name == 'ours':\n"
        "        return reference_toolchain(defect='default-is-enable')\n"
    )
    check = f"{CACHE_MODE}::test_default_stores_nothing"
    result = suite.runpytest_subprocess("--ascend-toolchain=ours", "--pyargs", check)
    (line,) = [each for each in result.outlines if each.startswith("repeat ")]
    again = suite.run("sh", "-c", f"cd / && {line.removeprefix('repeat').strip()}")
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    assert "default-is-enable" in again.stdout.str()
