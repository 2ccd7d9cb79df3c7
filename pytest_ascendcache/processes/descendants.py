"""Linux's ways to leave no process behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 10.0
"""Seconds a killed process may take to be gone."""


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
        for child in children(os.getpid()):
            killed.add(child)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return len(killed)


def children(parent: int) -> list[int]:
    """Process ids of the children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name is in parentheses and may hold anything, parentheses included.
            state, ppid = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            if int(ppid) == parent and state != "Z":
                found.append(int(stat.parent.name))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
