"""When processes that a command left behind are ended: a server may serve other commands, too."""

from __future__ import annotations

import time
from pathlib import Path

from pytest_ascendcache.processes.sleeping import wait_until
from tests.toolchains.test_sleeping import LONG, started

TRIES = 3
"""A guard waits for others for a few seconds only, which a starved machine may take here."""


def test_what_serves_another_command_is_ended_after_it(tmp_path: Path) -> None:
    assert any(_answer(tmp_path / str(number)) == "alive\n" for number in range(TRIES))


def _answer(place: Path) -> str:
    """What a command sees of a server that another one, which has ended, has left behind."""
    place.mkdir()
    asks = "mkfifo go; > ready; read line < go; kill -0 $(cat server) && echo alive > answer"
    served = started(place, asks)
    assert wait_until((place / "ready").exists, LONG)
    serves = started(place, "sleep 3600 & echo $! > server")
    assert wait_until(lambda: not Path(f"/proc/{serves.leader}").exists(), LONG)
    (place / "go").write_text("now\n")
    until = time.monotonic() + LONG
    assert served.wait(until).returncode is not None
    assert serves.wait(until).left_behind == 1
    server = (place / "server").read_text().strip()
    assert not Path(f"/proc/{server}").exists()
    answer = place / "answer"
    return answer.read_text() if answer.exists() else ""
