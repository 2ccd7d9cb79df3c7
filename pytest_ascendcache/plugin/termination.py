"""SIGTERM ends a run as Ctrl-C does: with summary, report and resume file, and nothing left."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

import pytest


def end_as_interrupted(config: pytest.Config) -> None:
    """Turn SIGTERM into a keyboard interrupt of this process, until ``config`` is unconfigured.

    Processes that are forked meanwhile die of it as before. Another plugin's handler stays.
    """
    is_worker = hasattr(config, "workerinput")
    if is_worker or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    owner = os.getpid()

    def interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() == owner:
            raise KeyboardInterrupt("SIGTERM")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, interrupt)
    config.add_cleanup(lambda: _restore(owner))


def _restore(owner: int) -> None:
    if os.getpid() == owner:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
