"""A green run has judged something: which toolchain it names, and what it leaves undecided."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RULE = "--ascend-rule=cache-mode/default-is-disable"
NOT_CANN = "the embedded reference: this says nothing about CANN"


def _program(path: Path, script: str = "exit 1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


# --- which toolchain ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found_by",
    [
        *("PATH", "home"),
        pytest.param("ASCEND_TOOLKIT_HOME", marks=pytest.mark.nightly),
        pytest.param("ASCEND_HOME_PATH", marks=pytest.mark.nightly),
    ],
)
def test_the_reference_is_not_judged_by_default_beside_a_real_toolchain(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, found_by: str
) -> None:
    program = suite.path / "toolkit/bin/atc"
    if found_by == "PATH":
        monkeypatch.setenv("PATH", str(_program(program).parent), prepend=":")
        named = "--ascend-toolchain=atc"
    elif found_by == "home":  # the toolkit is set up, but its atc is in another place
        monkeypatch.setenv("ASCEND_HOME_PATH", str(suite.path))
        named = "--ascend-atc=PATH"
    else:
        monkeypatch.setenv(found_by, str(_program(program).parents[1]))
        named = f"--ascend-atc={program}"
    for asked in ("--ascend-cache", RULE):
        result = suite.runpytest_subprocess(asked)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (error,) = [line for line in result.errlines if line]
        assert error.startswith("ERROR: this machine has a real toolchain, ")
        assert f"add {named} to judge it, or --ascend-toolchain=reference" in error
    suite.runpytest_subprocess(RULE, "--ascend-toolchain=reference").assert_outcomes(
        passed=3,
        deselected=suite.runpytest_subprocess(
            RULE, "--ascend-toolchain=reference", "--collect-only"
        ).parseoutcomes()["deselected"],
    )


def test_a_users_own_test_is_not_given_the_reference_beside_a_real_toolchain(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(suite.path))
    suite.makepyfile("def test_mine(ascend_toolchain): pass")
    result = suite.runpytest_subprocess()
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*this machine has a real toolchain, *"])


@pytest.mark.parametrize("options", [[], ["-q"], ["-n", "1"]], ids=str)
def test_the_last_line_says_what_was_judged(suite: pytest.Pytester, options: list[str]) -> None:
    result = suite.runpytest_subprocess(RULE, "--ascend-report=r.json", *options)
    assert result.ret == pytest.ExitCode.OK
    last = [line for line in result.outlines if line][-1]
    assert last.startswith("judged: reference ")
    assert last.endswith(NOT_CANN)
    judged = json.loads((suite.path / "r.json").read_text())["judged"]
    assert (judged["what"], judged["text"]) == ("reference", last.removeprefix("judged: "))


def test_the_last_line_names_the_program(suite: pytest.Pytester) -> None:
    program = _program(suite.path / "atc")
    result = suite.runpytest_subprocess(RULE, "-q", f"--ascend-atc={program}")
    assert [line for line in result.outlines if line][-1] == (
        f"judged: atc version unknown, {program}"
    )


def test_users_own_tests_say_what_they_judged(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_one="def test_mine(ascend_toolchain): pass", test_two="def test_other(): pass"
    )
    assert NOT_CANN in suite.runpytest_subprocess("-q", "test_one.py").outlines[-1]
    assert "judged" not in suite.runpytest_subprocess("-q", "test_two.py").stdout.str()
    on_workers = suite.runpytest_subprocess("-q", "-n", "1", "test_one.py")
    assert NOT_CANN in on_workers.outlines[-1]


OWN_CHECKS = """
import pytest

def check(rule):
    return pytest.mark.ascend_rule(rule)

@check("cache-mode/enable-reuses")
def test_breaks_off(ascend_toolchain):
    {}["nothing"]

@check("cache-mode/enable-reuses")
def test_asks_for_nothing(ascend_cash):
    pass

@check("robust/heals-damaged-entry")
def test_warns(ascend_toolchain):
    assert "healed" == "damaged"

@check("cache-mode/enable-reuses")
async def test_is_never_called(ascend_toolchain):
    assert False

@check("cache-mode/enable-reuses")
def test_runs_nothing():
    pass

@check("cache-mode/enable-reuses")
def test_notes_what_it_judged(ascend_evidence):
    ascend_evidence.notes.append("a cache of ours")

@check("cache-mode/enable-reuses")
@pytest.mark.xfail(reason="bug 7")
def test_is_known(ascend_toolchain):
    assert "reused" == "compiled"

@check("cache-mode/enable-reuses")
@pytest.mark.xfail(strict=True, reason="bug 8")
def test_is_mended(ascend_cache, ascend_operators):
    ascend_cache.warm(ascend_operators["add"])

@check("cache-mode/enable-reuses")
@pytest.mark.xfail(reason="bug 9")
def test_breaks_off_as_usual(ascend_toolchain):
    {}["nothing else"]

@check("cache-mode/enable-reuses")
@pytest.mark.xfail(run=False, reason="hangs")
def test_is_not_run(ascend_toolchain):
    pass
"""


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=str)
def test_users_own_checks_say_why_they_did_not_pass(
    suite: pytest.Pytester, options: list[str]
) -> None:
    suite.makepyfile(test_own=OWN_CHECKS)
    result = suite.runpytest_subprocess(*options, "-rs", "test_own.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            ">       {}*nothing*",
            "UNDECIDED cache-mode/enable-reuses test_own.py::test_breaks_off: KeyError: 'nothing'",
            "UNDECIDED cache-mode/enable-reuses test_own.py::test_asks_for_nothing: there is no "
            "fixture 'ascend_cash' for this check",
            "WARN robust/heals-damaged-entry test_own.py::test_warns: *'healed' == 'damaged'*",
            "UNDECIDED *::test_is_never_called: async def functions are not *",
            "UNDECIDED *::test_runs_nothing: the check ran no toolchain, so it has judged nothing*",
            "KNOWN DEVIATION *::test_is_known: bug 7",
            "UNDECIDED *::test_is_mended: passed although a failure was expected: bug 8",
            "UNDECIDED *::test_breaks_off_as_usual: KeyError: 'nothing else'",
            "NOT APPLICABLE *::test_is_not_run: *hangs",
            "SKIPPED *hangs",
            "judged: reference *",
        ]
    )
    result.stdout.no_fnmatch_line("*test_notes_what_it_judged*")
    chinese = suite.runpytest_subprocess(*options, "--tb=no", "--ascend-language=zh", "test_own.py")
    chinese.stdout.fnmatch_lines(["无法判定 *::test_asks_*: 该检查没有名为 'ascend_cash' 的 *"])
    chinese.stdout.no_fnmatch_line(">  *")
    with_suite = suite.runpytest_subprocess("--ascend-cache", RULE, "test_own.py")
    with_suite.stdout.fnmatch_lines([">       {}*nothing*", "* KeyError: 'nothing'"])


def test_fixtures_of_the_suite_and_of_a_user_do_not_meet(suite: pytest.Pytester) -> None:
    suite.makeconftest("import pytest\n@pytest.fixture\ndef cache(): return 'mine'")
    suite.makepyfile(test_mine="def test_mine(cache, request): assert cache == 'mine'")
    suite.makepyfile(test_other="def test_other(add): pass")
    result = suite.runpytest_subprocess("--ascend-cache", RULE, ".")
    assert {**result.parseoutcomes(), "deselected": 0} == {
        "passed": 4,
        "errors": 1,
        "deselected": 0,
    }
    result.stdout.fnmatch_lines(["*fixture 'add' not found"])


def test_a_rule_selects_among_the_suites_checks_alone(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_mine="def test_mine(): assert False")
    result = suite.runpytest_subprocess("--ascend-cache", RULE, "test_mine.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert {**result.parseoutcomes(), "deselected": 0} == {
        "passed": 3,
        "failed": 1,
        "deselected": 0,
    }


def test_a_check_that_a_rule_leaves_out_is_one_item(suite: pytest.Pytester) -> None:
    """Creating all cases would take most of a short run. Cases that users name are still found."""
    module = "pytest_ascendcache.conformance.cache_mode.test_cache_mode"
    options = ("--ascend-cache", RULE, "--collect-only", "-q", "--pyargs")
    collected = suite.runpytest_subprocess(*options, module)
    collected.stdout.fnmatch_lines(["*test_default_stores_nothing"])
    cases = suite.runpytest_subprocess("--ascend-cache", "--collect-only", "-q", "--pyargs", module)
    checks = {line.partition("[")[0] for line in cases.outlines if "::" in line}
    of_several_rules = [line for line in cases.outlines if "that_no_option_names" in line]
    left_out = len(checks) - 3 + len(of_several_rules) - 1
    assert collected.parseoutcomes()["deselected"] == left_out
    named = f"{module}::test_enable_stores_a_valid_entry[add]"
    result = suite.runpytest_subprocess(*options, named)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert result.parseoutcomes()["deselected"] == 1


# --- nothing judged -------------------------------------------------------------------------


def test_a_run_without_an_applicable_check_is_not_green(suite: pytest.Pytester) -> None:
    program = _program(suite.path / "op_compiler")
    result = suite.runpytest_subprocess(RULE, f"--ascend-toolchain=op-compiler:{program}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "not applicable: cache-mode, 3 checks: op-compiler: *",
            "NOTHING WAS JUDGED: none of 3 checks is applicable",
        ]
    )


def test_a_run_without_a_check_of_the_suite_is_not_green(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_mine="def test_mine(): pass")
    package = ("--pyargs", "pytest_ascendcache.conformance")
    options = ("--ascend-cache", "-k", "test_mine", "test_mine.py", *package)
    result = suite.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["NOTHING WAS JUDGED: no check of the suite was run"])


@pytest.mark.parametrize("options", [(), ("--ascend-cache",), ("-n", "1")], ids=" ".join)
def test_checks_of_a_release_without_a_release_are_not_green(
    suite: pytest.Pytester, options: tuple[str, ...]
) -> None:
    package = ("--pyargs", "pytest_ascendcache.conformance.release")
    result = suite.runpytest_subprocess(*options, *package)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no release is named: add --ascend-release=FILE.toml" in result.stdout.str()
    result.stdout.fnmatch_lines(["NOTHING WAS JUDGED: *"])


# --- what the plugin finds around atc -------------------------------------------------------


def test_atc_is_told_which_operator_package_was_found(suite: pytest.Pytester) -> None:
    toolkit = suite.path / "toolkit"
    (toolkit / "opp/built-in").mkdir(parents=True)
    log = suite.path / "log"
    program = _program(toolkit / "bin/atc", f'echo "$ASCEND_OPP_PATH" >> {log}; exit 1')
    result = suite.runpytest_subprocess(RULE, f"--ascend-atc={program}")
    assert set(log.read_text().split()) == {str(toolkit / "opp")}
    result.stdout.fnmatch_lines([f"ascendcache: *opp_path {toolkit}/opp*"])


def test_an_operator_package_that_is_not_found_is_said_to_be_missing(
    suite: pytest.Pytester,
) -> None:
    program = _program(suite.path / "atc")
    result = suite.runpytest_subprocess(RULE, f"--ascend-atc={program}")
    result.stdout.fnmatch_lines(["ascendcache: *opp_path not found (set ASCEND_OPP_PATH)*"])


# --- a positive control that fails ----------------------------------------------------------


def test_what_rests_on_absence_is_undecided_where_nothing_is_ever_served(
    suite: pytest.Pytester,
) -> None:
    result = suite.runpytest_subprocess(
        "--ascend-defect=never-hits",
        "--ascend-rule=security/verify-before-load",
        "--ascend-report=r.json",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "POSITIVE CONTROL FAILED: an untouched canary under enable is not served: the entry "
            "was replaced; an unmarked one was replaced too, so the cache is purged at every run*"
        ]
    )
    checks = json.loads((suite.path / "r.json").read_text())["checks"]
    # Networks have a separate positive control.
    verdicts = {each["verdict"] for each in checks if "test_other_rooms" not in each["check"]}
    assert verdicts == {"undecided"}


# --- interrupted and broken runs ---------------------------------------------------------------


def test_a_full_disk_is_one_sentence_a_check(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        import errno, pytest
        from pytest_ascendcache.observation import CacheUnderTest

        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

        @pytest.fixture(autouse=True)
        def disk(monkeypatch):
            monkeypatch.setattr(CacheUnderTest, "compile", full)
        """
    )
    result = suite.runpytest_subprocess(RULE, "-k", "test_default_stores_nothing")
    result.stdout.fnmatch_lines(
        [
            "why      this machine prevents the check: No space left on device (/somewhere)",
        ]
    )


def test_nobody_is_blamed_on_a_full_disk(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest, tempfile

        @pytest.mark.ascend_rule("cache-mode/enable-stores")
        @pytest.mark.parametrize("full", [True, False])
        def test_something_is_stored(full, monkeypatch):
            if full:
                device = lambda dir: open("/dev/full", "wb", buffering=0)
                monkeypatch.setattr(tempfile, "TemporaryFile", device)
            assert not "stored"
        """
    )
    result = suite.runpytest_subprocess("--ascend-cache", "test_nobody_is_blamed_on_a_full_disk.py")
    result.stdout.fnmatch_lines(
        ["why      this machine prevents the check: No space left on device (/*"]
    )
    result.stdout.fnmatch_lines(["2 checks: 0 pass, 1 fail, * 1 undecided"])


def test_an_interrupt_ends_the_compiler_too(suite: pytest.Pytester) -> None:
    """Ctrl-C while atc runs: pytest ends, and no process of the toolchain is left."""
    started, never = suite.path / "started", suite.path / "never"
    os.mkfifo(started)
    os.mkfifo(never)
    program = _program(suite.path / "toolkit/bin/atc", f"echo $$ > {started}; read go < {never}")
    suite.makeconftest(
        """
        import signal

        # SIGINT is ignored if this test runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        """
    )
    command = [sys.executable, "-m", "pytest", RULE, "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, f"--ascend-atc={program}"],
        cwd=suite.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        fifo = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(fifo, select.POLLIN)
        poll.register(os.pidfd_open(run.pid), select.POLLIN)
        assert poll.poll(120_000)  # atc runs, or the run has ended
        compiler = os.pidfd_open(int(os.read(fifo, 100)))
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=60)
        ended = select.poll()
        ended.register(compiler, select.POLLIN)
        assert ended.poll(60_000), "atc still runs"
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "INCOMPLETE" in output
    assert "INTERNALERROR" not in output + errors
