"""Waiting for what another process does to files, without keeping a core busy."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

_PAUSE = 0.005


def wait_until(happened: Callable[[], bool], seconds: float, pause: float = _PAUSE) -> bool:
    """Look until ``happened`` says so, for ``seconds`` at most; whether it did.

    Nothing tells of a file made at an unknown depth, so this looks again after a ``pause`` of
    seconds; the processes that are waited for have the processor in between.
    """
    nothing = select.poll()
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        nothing.poll(pause * 1000)
    return True
