"""Progress: seen on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

BAR = """
import sys
from pytest_ascendcache.reports.progress import progress_bar

with progress_bar("audit", 4, "entries") as advance:
    for _ in range(4):
        advance(1)
sys.stderr.flush()
"""

IN_PYTEST = """
from pytest_ascendcache.reports.progress import run_progress

def test_long(pytestconfig):
    with run_progress(pytestconfig, "audit", 4, "entries") as advance:
        advance(2)
        print("captured")
        advance(7)
"""

SLOW_CLOCK = """
import itertools, pytest
from pytest_ascendcache.reports.progress import TitleProgress

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.unregister(name="ascendcache-title")
    title = TitleProgress(config, clock=itertools.count().__next__)
    config.pluginmanager.register(title, "ascendcache-title")
"""
"""Every look at the clock is a second later."""


def _environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "TERM")}
    return {**kept, "TERM": "xterm", "COLUMNS": "100", **settings}


def _on_terminal(command: list[str], directory: Path, **settings: str) -> tuple[int, str]:
    """Exit status and what a terminal is shown of a command's output and errors."""
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        command, cwd=directory, stdout=inside, stderr=inside, env=_environment(**settings)
    )
    os.close(inside)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return process.wait(60), shown.decode(errors="replace")


def test_a_terminal_sees_progress_and_remaining_time(tmp_path: Path) -> None:
    status, shown = _on_terminal([sys.executable, "-c", BAR], tmp_path)
    assert status == 0
    assert "audit:   0%" in shown
    assert "0/4 entries, ? left" in shown


@pytest.mark.parametrize("settings", [{"CI": "true"}, {"TERM": "dumb"}])
def test_ci_and_dumb_terminals_see_nothing(tmp_path: Path, settings: dict[str, str]) -> None:
    assert _on_terminal([sys.executable, "-c", BAR], tmp_path, **settings) == (0, "")


def test_a_file_sees_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BAR], env=_environment(), cwd=tmp_path, capture_output=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_within_pytest_a_bar_gets_through_and_output_stays_captured(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(IN_PYTEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    status, shown = _on_terminal(command, tmp_path)
    assert status == 0
    assert "entries, ? left" in shown
    assert "captured" not in shown


def test_the_title_of_a_terminal_says_how_far_the_suite_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SLOW_CLOCK, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--ascend-cache"]
    rule = "--ascend-rule=cache-mode/default-is-disable"
    status, shown = _on_terminal([*command, rule], tmp_path)
    assert status == 0
    assert "\033]0;ascendcache 1/3, 2 s left\007" in shown
    assert shown.count("\033]0;") == 4  # three checks, and the end
    assert shown.count("\033]0;\007") == 1
    status, shown = _on_terminal([*command, rule], tmp_path, CI="true")
    assert "\033]0;" not in shown
