"""What one check alone may use at a time, on whichever worker it runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """Wait until no other process is between these lines with the same ``lock``, a file."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
