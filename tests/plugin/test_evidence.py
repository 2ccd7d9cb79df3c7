"""What a run leaves: evidence where it is red, and no file replaced that is not its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.plugin import keeping

RULE = "--ascend-rule=cache-mode/default-is-disable"
BROKEN = "--ascend-defect=default-is-enable"


@pytest.fixture
def state(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(suite.path / "state"))
    return suite.path / "state/pytest-ascendcache"


def test_the_evidence_of_a_red_run_is_kept(suite: pytest.Pytester, state: Path) -> None:
    assert suite.runpytest_subprocess(RULE).ret == pytest.ExitCode.OK
    assert not state.exists()
    for _ in range(2):
        result = suite.runpytest_subprocess(RULE, BROKEN)
    (line,) = [each for each in result.outlines if each.startswith("evidence: ")]
    kept = Path(line.removeprefix("evidence: ").partition(" (")[0])
    assert kept.parent == state
    assert len([*state.iterdir()]) == 2
    assert json.loads((kept / "report.json").read_text())["totals"]["checks"]["fail"] == 3
    assert (kept / "sandbox-1/cache").is_dir()
    assert "--ascend-defect=default-is-enable" in (kept / "repeat.txt").read_text()


def test_only_the_last_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    foreign = keeping.place() / "notes"
    foreign.mkdir(parents=True)
    for number in range(keeping.RUNS + 2):
        (keeping.place() / f"20200101-{number:06}-1").mkdir()
        (keeping.place() / f"20200101-{number:06}-1/report.json").write_text("{}")
    (tmp_path / "big/cache").mkdir(parents=True)
    (tmp_path / "big/cache/object").write_bytes(b"x" * 100)
    os.mkfifo(tmp_path / "big/cache/fifo")
    check = {"check": "a::b", "verdict": "fail", "repeat": "again"}
    check |= {"evidence": {"sandbox": str(tmp_path / "big")}}
    report = {"checks": [check], "causes": [{"checks": ["a::b"]}]}
    history = tmp_path / "stress-1.shortest.jsonl"
    history.write_text("{}")
    evidence, repeat = keeping.keep_evidence(report, [history])
    assert len([*keeping.place().glob("2*")]) == keeping.RUNS
    assert foreign.is_dir()
    (kept,) = [each for each in keeping.place().glob("2*") if "20200101" not in each.name]
    assert str(kept) in evidence
    assert repeat == f"repeat it: pytest --ascend-stress={kept / history.name}"
    assert [each.name for each in (kept / "sandbox-1/cache").iterdir()] == ["object"]


@pytest.mark.parametrize(
    "option",
    ["--ascend-report", "--ascend-html"],
)
def test_a_file_of_somebody_else_is_not_replaced(suite: pytest.Pytester, option: str) -> None:
    for content in ("print('mine')\n", '{"mine": 1}\n', "no line end"):
        (suite.path / "mine").write_text(content)
        result = suite.runpytest_subprocess(RULE, f"{option}=mine")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {option}=*mine: the file exists and no earlier run*"])
        assert (suite.path / "mine").read_text() == content
    (suite.path / "mine").write_text("")
    for _ in range(2):  # the second run replaces what the first has written
        assert suite.runpytest_subprocess(RULE, f"{option}=mine").ret == pytest.ExitCode.OK


def test_an_edited_verdict_is_not_adopted(suite: pytest.Pytester) -> None:
    suite.runpytest_subprocess(RULE, BROKEN, "--ascend-resume=verdicts.jsonl")
    file = suite.path / "verdicts.jsonl"
    text = file.read_text()
    assert text.count('"verdict": "fail"') == 3
    file.write_text(text.replace('"verdict": "fail"', '"verdict": "pass"', 1))
    result = suite.runpytest_subprocess(RULE, BROKEN, "--ascend-resume=verdicts.jsonl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --ascend-resume: *line 2 is not as it was written*"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_first_check_is_told(
    suite: pytest.Pytester, number: signal.Signals
) -> None:
    reached = suite.path / "reached"
    os.mkfifo(reached)
    suite.makeconftest(
        f"""
        import pytest, signal

        # SIGINT is ignored if this test runs in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        @pytest.fixture(autouse=True)
        def stands_still():
            with open({str(reached)!r}, "w") as file:
                file.write("x")
            signal.pause()
        """
    )
    command = [sys.executable, "-m", "pytest", RULE, "-p", "no:cacheprovider"]
    options = ["--ascend-report=r.json", "--ascend-resume=v.jsonl"]
    with subprocess.Popen(
        [*command, *options],
        cwd=suite.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        poll = select.poll()
        poll.register(os.open(reached, os.O_RDONLY | os.O_NONBLOCK), select.POLLIN)
        poll.register(os.pidfd_open(run.pid), select.POLLIN)
        assert poll.poll(120_000)  # the first check is being set up, or the run has ended
        run.send_signal(number)
        output, errors = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "INCOMPLETE: 3 more checks were selected, but did not run" in output
    assert "the embedded reference: this says nothing about CANN" in output
    assert "INTERNALERROR" not in output + errors
    assert json.loads((suite.path / "r.json").read_text())["checks_without_verdict"] == 3
    assert (suite.path / "v.jsonl").read_text().startswith("{")


def test_an_optimised_python_judges_too(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    for options, code in (((RULE,), 0), ((RULE, BROKEN), 1)):
        words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
        ended = subprocess.run(words, cwd=suite.path, capture_output=True, text=True)
        assert ended.returncode == code, ended.stdout + ended.stderr
