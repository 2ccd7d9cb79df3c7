"""Waiting for another process to change files, without keeping a core busy."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

_PAUSE = 0.005


def wait_until(happened: Callable[[], bool], seconds: float, pause: float = _PAUSE) -> bool:
    """Check ``happened`` until it returns True, for at most ``seconds``. Return whether it did.
    Nothing notifies of a file created at an unknown depth, so this checks again after each
    ``pause`` (seconds) and leaves the processor to others in between."""
    nothing = select.poll()
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        nothing.poll(pause * 1000)
    return True
