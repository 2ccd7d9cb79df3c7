"""Mutual exclusion with CANN's own installers.

They take no lock. Each looks for ``python ... install.py`` or ``uninstall.py`` in ``ps -ef``, and
waits for the processes it finds. So our installer waits for theirs, and shows such a command line
while it works: either theirs sees ours and waits, or ours sees theirs and waits again. Source:
facts ``static-kernel`` sections 3.2 and 3.3.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_ascendcache.reference.static_kernel.index_file import RegistryError

_PROCESSES = Path("/proc")
_MEMORY = Path("/proc/self/mem")
_SHOWN = b"python3 uninstall.py\0"
"""The start of a command line that CANN's installers and uninstallers wait for."""
_SCRIPT = re.compile(rb"(?:^|/)static_kernel/ai_core/[^/]+/scripts/(?:un)?install\.py$")
_PYTHON = re.compile(rb"(?:^|/)python[^/]*$")


@contextlib.contextmanager
def kept_out(patience: float) -> Iterator[None]:
    """Keep CANN's installers out. Waits until none is running.

    Raises ``RegistryError`` if one is still running after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    own = _command_line()
    while True:
        for process in vendors():
            _await_end(process, deadline)
        _show(own, _SHOWN)
        if not vendors():
            break
        _show(own, b"")  # one started in between and may not have seen our command line
    try:
        yield
    finally:
        _show(own, b"")


def vendors() -> list[int]:
    """The processes that run the install or uninstall script of a CANN package."""
    found = []
    for path in _PROCESSES.glob("[1-9]*"):
        with contextlib.suppress(OSError):
            line = (path / "cmdline").read_bytes().split(b"\0")
            python = next((at for at, word in enumerate(line) if _PYTHON.search(word)), len(line))
            if any(map(_SCRIPT.search, line[python + 1 :])):  # an emulator's words may come first
                found.append(int(path.name))
    return found


def _await_end(process: int, deadline: float) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # this kernel or Python cannot wait for a process
        raise RegistryError(f"process {process} installs; run this again when it ended") from None
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise RegistryError(f"process {process} has been installing for too long; end it")
    finally:
        os.close(descriptor)


def _command_line() -> tuple[int, bytes]:
    """The address of this process's command line in its memory, and its content."""
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(after_name[45]), int(after_name[46])  # fields 48 and 49; the first is 3
        with _MEMORY.open("rb", buffering=0) as memory:
            memory.seek(start)
            return start, memory.read(end - start)
    except (OSError, ValueError, IndexError):
        return 0, b""


def _show(own: tuple[int, bytes], text: bytes) -> None:
    """Overwrite the start of the command line that ``ps`` shows.

    If that fails, an installer of CANN that starts now does not wait.
    """
    address, line = own
    if len(line) < len(text):
        return
    with contextlib.suppress(OSError), _MEMORY.open("r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(text + line[len(text) :])
