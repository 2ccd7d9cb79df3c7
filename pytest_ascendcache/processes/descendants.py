"""Ending what a process has started and adopted."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from pytest_ascendcache.processes.guard import running_processes

_PATIENCE = 10.0
"""Seconds a killed process may take to be gone."""


def end_children() -> int:
    """Kill every child, adopted ones included, until there is none; how many there were.

    Killing one brings its own children here, which are next.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            gone, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if gone:
            continue
        for process in running_processes():
            if process.parent == os.getpid():
                killed.add(process.id)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.id, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return len(killed)
