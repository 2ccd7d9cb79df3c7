"""A gate in a process of another command: it stops there until it is told to go on."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path


class Gate:
    """Two FIFOs in ``directory``, one for each direction. Nothing here waits without a deadline."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.reached, self.go = directory / "reached", directory / "go"
        for path in (self.reached, self.go):
            os.mkfifo(path, 0o600)
        self._reached = os.open(self.reached, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Open for both, so that opening it waits for nobody.
        self._go = os.open(self.go, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, deadline: float) -> bool:
        """Whether the process stands at the gate; not if it ended, or at ``deadline``
        (``time.monotonic``)."""
        poll = select.poll()
        poll.register(self._reached, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
        return bool(os.read(self._reached, 64))

    def abandon(self) -> None:
        """Nobody will come: who waits need not. Any thread may say so, at any time."""
        with contextlib.suppress(OSError):  # closed: nobody waits
            os.close(os.open(self.reached, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def release(self) -> None:
        """Let it go on, now or as soon as it comes."""
        os.write(self._go, b"g")

    def kill(self) -> None:
        """Have it killed there, now or as soon as it comes."""
        os.write(self._go, b"k")

    def close(self) -> None:
        """What still stands there is killed: its gate is gone."""
        for descriptor in (self._reached, self._go):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._reached = self._go = -1
