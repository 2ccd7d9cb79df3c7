"""``--ascend-doctor``, ``--ascend-rules``, and the first selection of checks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.words.layout import columns

ATC = Path(sys.executable).with_name("ascendcache-atc")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory without tests on a machine without a toolkit."""
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -q\n")
    return pytester


def _programs(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory at the front of PATH."""
    programs = suite.mkdir("bin")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    return programs


def test_every_rule_is_listed_for_a_narrow_terminal(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--ascend-rules")
    assert result.ret == 0
    assert all(columns(line) <= 80 for line in result.outlines)
    listed = {line.split()[0] for line in result.outlines if line and line[0] != " "}
    assert set(load_rules()) <= listed
    result.stdout.fnmatch_lines(
        [
            "cache-mode/enable-stores * must, * checks",
            "    Enable stores a valid entry at the first compile",
            "    [[]ATC --op_compiler_cache_mode *",
            "release/debug-off * with --ascend-release",
        ]
    )


def test_a_rule_that_is_alone_is_told_with_its_statement(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--ascend-rules=upgrade-stamp")
    result.stdout.fnmatch_lines(["robust/upgrade-stamp * should, * checks", "1 rule, * checks"])
    words = " ".join(result.stdout.str().split())
    assert " ".join(load_rules()["robust/upgrade-stamp"].statement.split()) in words


def test_a_text_that_no_rule_has_is_corrected(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--ascend-rules=upgrade-stmap")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*no rule contains this text; did you mean 'robust/upgrade-stamp'?"]
    )


def test_without_a_toolkit_the_doctor_says_what_is_missing(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--ascend-doctor")
    assert result.ret == 0
    assert all(columns(line) <= 80 for line in result.outlines)
    result.stdout.fnmatch_lines(
        [
            "toolchains found",
            "  ok        reference *",
            "  missing   atc: neither on PATH nor *",
            "*without one only the reference is judged*",
            "*get it: source the toolkit's set_env.sh*",
            "  missing   op_compiler*",
            "*rules not applicable*",
            "this machine",
            "*pytest-ascendcache *, Python *",
            "*access times*",
            "*free for sandboxes in*",
        ]
    )


def test_the_doctor_measures_the_toolchains_in_sight(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_programs(suite, monkeypatch) / "atc").symlink_to(ATC)
    home = suite.mkdir("toolkit")
    (home / "bin").mkdir()
    broken = home / "bin/atc"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(home))
    result = suite.runpytest_subprocess("--ascend-doctor")
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # the atc of the toolkit compiles nothing
    result.stdout.fnmatch_lines(
        [
            "  ok        atc * (by PATH)",
            "*operator package: not found; set ASCEND_OPP_PATH",
            "*one run: * as measured; --ascend-select=60runs: about*",
            "*its implementation mode tables*",
            "*rules not applicable*",
            "  missing   atc * (by ASCEND_TOOLKIT_HOME)",
            "*cannot compile: *",
        ]
    )


def test_nothing_is_selected_that_is_not_there(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--ascend-rule=cache-mode/enable-store", "--ascend-cache")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no such rule; did you mean 'cache-mode/enable-stores'?"])


@pytest.mark.parametrize(
    ("argument", "phrase"),
    [
        ("--ascend-defect=store-nothing", "no such defect; did you mean 'stores-nothing'?"),
        ("--ascend-defect=can", "no such defect; did you mean 'cann'?"),
        ("--ascend-toolchain=act", "no such toolchain, *; did you mean 'atc'?"),
        ("--ascend-deviations=can", "*neither a built-in list *; did you mean 'cann'?"),
        ("--ascend-select=full-", "*full*"),
    ],
)
def test_names_that_are_nearly_right_are_corrected(
    suite: pytest.Pytester, argument: str, phrase: str
) -> None:
    result = suite.runpytest_subprocess("--ascend-cache", argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{phrase}"])
