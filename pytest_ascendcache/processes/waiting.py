"""Waiting for what another process does to files, without keeping a core busy."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

_PAUSE = 5
"""Milliseconds between two looks."""


def wait_until(happened: Callable[[], bool], seconds: float) -> bool:
    """Look until ``happened`` says so, for ``seconds`` at most; whether it did.

    Nothing tells of a file made at an unknown depth, so this looks again every few milliseconds;
    the processes that are waited for have the processor in between.
    """
    pause = select.poll()
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        pause.poll(_PAUSE)
    return True
