"""Distinguishing processes that hang from processes that work or end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_ascendcache.processes import sleeping
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, Running, ToolchainError
from pytest_ascendcache.processes.sleeping import ends_or_sleeps
from pytest_ascendcache.toolchains import base

LONG = 60.0


def started(tmp_path: Path, script: str) -> Running:
    launcher = ProcessLauncher({"sh": ("/bin/sh", "-c")})
    return launcher.start(Command("sh", [script], {}, tmp_path))


@pytest.mark.parametrize(
    "script",
    ["mkfifo fifo; read line < fifo", "sleep 3600 & wait"],
    ids=["one process", "a child of one"],
)
def test_who_sleeps_is_left_before_the_deadline(tmp_path: Path, script: str) -> None:
    running = started(tmp_path, script)
    until = time.monotonic() + LONG
    assert ends_or_sleeps(running, 1.5, LONG) > 1.5
    assert time.monotonic() < until
    assert not running.has_ended
    assert running.wait(0.0).returncode is None


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("(while :; do :; done) & wait", marks=pytest.mark.nightly, id="in its group"),
        pytest.param("setsid sh -c 'while :; do :; done' & wait", id="in a session of its own"),
    ],
)
def test_who_works_is_waited_for(tmp_path: Path, script: str) -> None:
    running = started(tmp_path, script)
    until = time.monotonic() + 3.0
    ends_or_sleeps(running, 1.5, 3.0)
    assert time.monotonic() >= until
    assert running.wait(0.0).returncode is None


def test_who_sleeps_beside_one_that_works_is_waited_for(tmp_path: Path) -> None:
    """The sleeping process waits for one that compiles, which may take long on a busy machine."""
    waits = started(tmp_path, "sleep 3600")
    works = started(tmp_path, "while :; do :; done")
    until = time.monotonic() + 4.0
    ends_or_sleeps(waits, 1.5, 4.0, [works])
    assert time.monotonic() >= until
    works.kill()
    assert works.wait(until + LONG).returncode == -9
    assert ends_or_sleeps(waits, 1.5, LONG, [works]) > 1.5
    assert waits.wait(0.0).returncode is None


def test_an_end_is_noticed_at_once(tmp_path: Path) -> None:
    running = started(tmp_path, "exit 3")
    until = time.monotonic() + LONG
    ends_or_sleeps(running, LONG, LONG)
    assert time.monotonic() < until
    assert running.wait(until).returncode == 3


def test_compiles_that_all_sleep_are_ended_before_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "UNWATCHED", 0.1)
    until = time.monotonic() + LONG
    hangs = [(started(tmp_path, "sleep 3600"), lambda ended: ended.returncode) for _ in "12"]
    ends = [(started(tmp_path, "exit 3"), lambda ended: ended.returncode)]
    assert base.wait_for_all([*hangs, *ends], LONG, 0.5) == [None, None, 3]
    assert time.monotonic() < until


def test_who_gets_no_processor_is_not_said_to_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine is played on which the process is always runnable and never runs."""
    monkeypatch.setattr(sleeping, "_look", lambda _: (0, True))
    monkeypatch.setattr(sleeping, "_STARVED", 2.0)
    running = started(tmp_path, "sleep 3600")
    with pytest.raises(ToolchainError, match="less busy"):
        sleeping.wait_its_time(running, 0.5)
    assert running.has_ended
