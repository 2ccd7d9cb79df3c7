"""Ending the children a process has started or adopted."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from pytest_ascendcache.processes.guard import running_processes

_PATIENCE = 10.0
"""Seconds a killed process may take to disappear."""


def end_children() -> int:
    """Kill every child, adopted ones included, until none is left. Returns how many were killed.
    The children of a killed child are adopted by this process and killed next."""
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
