"""CANN's own installers at work beside ours.

They take no lock. Each looks for ``python ... install.py`` or ``uninstall.py`` in ``ps -ef``, and
waits for what it finds. So ours waits for theirs, and shows such a command line while it works:
either theirs sees ours, or ours sees theirs and draws back. Source: facts ``static-kernel``
sections 3.2 and 3.3.
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
"""What installers and uninstallers of CANN wait for."""
_SCRIPT = re.compile(rb"(?:^|/)static_kernel/ai_core/[^/]+/scripts/(?:un)?install\.py$")
_PYTHON = re.compile(rb"(?:^|/)python[^/]*$")


@contextlib.contextmanager
def kept_out(patience: float) -> Iterator[None]:
    """Work while no installer of CANN does.

    Raises:
        RegistryError: where one is still at work after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    own = _command_line()
    while True:
        for process in vendors():
            _await_end(process, deadline)
        _show(own, _SHOWN)
        if not vendors():
            break
        _show(own, b"")  # it may have looked before it could see us
    try:
        yield
    finally:
        _show(own, b"")


def vendors() -> list[int]:
    """Processes that run a script with which CANN's packages install or uninstall themselves."""
    found = []
    for path in _PROCESSES.glob("[1-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")[:4]
            if _PYTHON.search(words[0]) and any(map(_SCRIPT.search, words[1:])):
                found.append(int(path.name))
    return found


def _await_end(process: int, deadline: float) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # a kernel or Python that cannot wait for it
        raise RegistryError(f"process {process} installs; run this again when it ended") from None
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise RegistryError(f"process {process} has been installing for too long; end it")
    finally:
        os.close(descriptor)


def _command_line() -> tuple[int, bytes]:
    """Where this process's command line lies in its memory, and what it is."""
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(after_name[45]), int(after_name[46])  # fields 48 and 49, from 3 on
        with _MEMORY.open("rb", buffering=0) as memory:
            memory.seek(start)
            return start, memory.read(end - start)
    except (OSError, ValueError, IndexError):
        return 0, b""


def _show(own: tuple[int, bytes], text: bytes) -> None:
    """Begin the command line that ``ps`` shows with a text. Where that cannot be done, an
    installer of CANN that starts now does not wait."""
    place, line = own
    if len(line) < len(text):
        return
    with contextlib.suppress(OSError), _MEMORY.open("r+b", buffering=0) as memory:
        memory.seek(place)
        memory.write(text + line[len(text) :])
