"""A user's script with static kernels, judged by the files it leaves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.faults import find_strace
from pytest_ascendcache.toolchains.torchair import TorchairToolchain

SCRIPT = Path(__file__).parents[1] / "standins/torchair_script.py"
NETWORK = Path(__file__).parents[2] / "fixtures/networks/square.json"
JUDGED = (f"--ascend-toolchain=torchair:{SCRIPT}", "-p", "no:cacheprovider")
NAMES = {
    "leaves": "test_what_one_card_leaves",
    "names": "test_names_of_packages",
    "kernels": "test_every_target_operator_has_a_kernel",
    "installed": "test_nothing_stays_installed",
    "refused": "test_a_failure_leaves_nothing_installed and package-refuses",
    "told": "test_a_failure_is_told and op-compiler-fails",
    "again": "test_what_failed_once_is_tried_again and compile",
    "ends": "test_a_signal_ends_it and compile and TERM and not hangs",
    "hangs": "hangs and TERM",
    "signals": "test_a_signal_leaves_nothing_installed and TERM and not compile",
    "killed": "test_the_next_start_cleans_up",
    "rerun": "test_another_run_in_the_same_directory",
    "others": "test_other_cards_in_the_same_directory",
    "damaged": "test_a_damaged_package_that_was_kept",
    "first": "test_operators_of_every_card_are_compiled",
    "reads": "test_every_card_reads_the_index",
    "nobody": "test_a_first_card_without_op_compiler",
    "number": "test_cards_without_a_fitting_number",
    "jobs": "test_two_jobs_at_once",
    "stranger": "test_packages_installed_by_hand_stay",
}


BY_DAY = ("leaves", "refused", "again", "ends", "hangs", "signals", "rerun", "damaged", "nobody")
"""Words in the names of the checks that a test by day expects to pass; a nightly one tests all."""


@pytest.fixture
def machine(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A machine with ``op_compiler`` on PATH and an operator package."""
    program = pytester.path / "bin/op_compiler"
    program.parent.mkdir()
    module = "pytest_ascendcache.reference.static_kernel.op_compiler"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
    program.chmod(0o755)
    opp = pytester.mkdir("opp")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(opp))
    monkeypatch.setenv("STANDIN_NETWORK", str(NETWORK))
    return pytester


@pytest.mark.parametrize(
    "check",
    [pytest.param(each, marks=() if each in BY_DAY else pytest.mark.nightly) for each in NAMES],
)
def test_a_script_that_keeps_the_promises(machine: pytest.Pytester, check: str) -> None:
    result = machine.runpytest_subprocess(*JUDGED, "-k", NAMES[check])
    if check == "reads" and find_strace() is None:
        result.stdout.fnmatch_lines(["1 check: 0 pass*1 undecided*"])
        return
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(
        ["ascendcache: torchair script *torchair_script.py, on *", "1 check: 1 pass,*"]
    )


def by_night(*values: str) -> Any:
    """Return a case for nightly runs. Similar cases also run by day."""
    return pytest.param(*values, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("defect", "check", "verdict"),
    [
        ("renamed", "leaves", "fail"),
        by_night("no-debug", "leaves", "fail"),
        ("odd-package", "names", "warn"),
        by_night("private", "installed", "fail"),
        ("more-dumped", "kernels", "fail"),
        by_night("early", "kernels", "fail"),
        ("installed", "installed", "fail"),
        ("silent", "told", "warn"),
        by_night("deaf", "ends", "warn"),
        ("alone", "number", "fail"),
        by_night("unread", "reads", "fail"),
        by_night("hoards", "rerun", "fail"),
        by_night("by-name", "others", "fail"),
        ("hoards", "stranger", "warn"),
        ("off", "leaves", "undecided"),
        by_night("off", "installed", "undecided"),
        ("off", "number", "undecided"),
        by_night("broken", "number", "undecided"),
    ],
)
def test_scripts_that_do_not(
    machine: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    defect: str,
    check: str,
    verdict: str,
) -> None:
    if check == "reads" and find_strace() is None:
        verdict = "undecided"  # this machine cannot record the files that a card opens
    monkeypatch.setenv("STANDIN_DEFECT", defect)
    result = machine.runpytest_subprocess(*JUDGED, "-k", NAMES[check])
    result.stdout.fnmatch_lines([f"1 check: 0 pass*1 {verdict}*"])


def test_checks_take_turns_at_the_operator_package(
    machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If workers did not take turns, they would see each other's packages."""
    turns = machine.path / "turns"
    monkeypatch.setenv("STANDIN_TURNS", str(turns))
    chosen = "one_card or (a_failure_leaves and (refuses or broken))"
    result = machine.runpytest_subprocess(*JUDGED, "-n", "2", "-k", chosen)
    result.stdout.fnmatch_lines(["*: 3 pass, *"])
    came = turns.read_text().split()
    assert came == ["begin", "end"] * (len(came) // 2)


@pytest.mark.parametrize(("last", "code"), [("open('pipe').read()", None), ("exit(3)", 3)])
def test_who_was_seen_long_enough_is_killed(tmp_path: Path, last: str, code: int | None) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import os, pathlib\nos.mkfifo('pipe')\npathlib.Path('seen').touch()\n{last}"
    )
    toolchain = TorchairToolchain(script, 2, 60.0)
    seen = "never" if code else "seen"
    with toolchain.started(tmp_path, 0, 1, None) as job:
        run = job.wait(enough=lambda work: (work / seen).exists())
    assert run.returncodes == (code,)


def test_packages_that_cannot_be_installed_are_no_pass(
    machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the script never installs anything, there is nothing to judge."""
    monkeypatch.setenv("STANDIN_DEFECT", "silent")
    compiler = machine.path / "bin/op_compiler"
    compiler.write_text(compiler.read_text() + "exit 1\n")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(machine.mkdir("closed") / "opp"))
    result = machine.runpytest_subprocess(*JUDGED, "-k", NAMES["installed"])
    result.stdout.fnmatch_lines(["1 check: 0 pass*1 undecided*"])


def test_what_is_not_on_the_machine(
    machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_OPP_PATH")
    result = machine.runpytest_subprocess(*JUDGED, "-k", NAMES["installed"])
    result.stdout.fnmatch_lines(["*ASCEND_OPP_PATH is not set*", "1 check: 0 pass*1 undecided*"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--ascend-toolchain=torchair:no.py"],
            "--ascend-toolchain=torchair:*no.py: it is not a file; name a script",
        ),
        (
            ["--ascend-toolchain=torchair:/dev/zero"],
            "--ascend-toolchain=torchair:/dev/zero: it is not a file; name a script",
        ),
        (
            [*JUDGED, "--override-ini=ascend_torchair_cards=1"],
            "-o ascend_torchair_cards must be a *, not '1'.",
        ),
        (
            [*JUDGED, "--ascend-atc=atc"],
            "*the toolchain 'atc' and does not go with --ascend-toolchain=torchair:*",
        ),
    ],
)
def test_options_that_make_no_sense(
    machine: pytest.Pytester, options: list[str], words: str
) -> None:
    result = machine.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {words}"])
