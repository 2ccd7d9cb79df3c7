"""A gate in the process of another command, which stops there until it is told to continue."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pytest_ascendcache.processes.launch import wait_readable


class FaultGate:
    """Two FIFOs in ``directory``, one for each direction. Every wait has a deadline."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.reached, self.go = directory / "reached", directory / "go"
        for path in (self.reached, self.go):
            os.mkfifo(path, 0o600)
        self._reached = os.open(self.reached, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Opened for both directions, so that opening does not block.
        self._go = os.open(self.go, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self) -> FaultGate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, deadline: float) -> bool:
        """Wait until ``deadline`` (``time.monotonic``) for the process to reach the gate. Return
        whether it did; if it ended, it did not."""
        return wait_readable(self._reached, deadline) and bool(os.read(self._reached, 64))

    def abandon(self) -> None:
        """Make :meth:`wait` return, because no process will come. Callable from any thread."""
        with contextlib.suppress(OSError):  # the gate is closed, so nobody waits
            os.close(os.open(self.reached, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def release(self) -> None:
        """Let the process continue, now or when it arrives."""
        os.write(self._go, b"g")

    def kill(self) -> None:
        """Have the process killed at the gate, now or when it arrives."""
        os.write(self._go, b"k")

    def close(self) -> None:
        """Remove the gate. A process that still stands there is killed."""
        for descriptor in (self._reached, self._go):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._reached = self._go = -1
