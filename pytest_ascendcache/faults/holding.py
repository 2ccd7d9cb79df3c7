"""Connects a gate (``faults.gate``) to a command that runs under strace.

``python -I holding.py REACHED GO LOG FIFO COMMAND...``. strace stops a process with SIGSTOP after
the planned system call and writes that to its log, the FIFO. This program copies the log; when it
reports a stopped process, it notifies the gate and waits for permission to continue. It only reads
pipes and never polls.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

STOPPED = re.compile(rb"^(\d+) +--- stopped by SIGSTOP ---", re.MULTILINE)


def main() -> int:
    """Run the command. The exit status is strace's."""
    reached, go, log, fifo, *command = sys.argv[1:]
    # The gate holds both ends open; when it closes them, reading ends.
    gate = os.open(go, os.O_RDONLY | os.O_CLOEXEC)
    os.mkfifo(fifo, 0o600)
    # Opened for both directions, so that neither side blocks.
    both = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
    tracer = subprocess.Popen(command)
    status: list[int] = []

    def end() -> None:
        status.append(tracer.wait())
        os.close(both)

    # Once strace has ended, no process has the pipe open for writing, and reading ends.
    threading.Thread(target=end).start()
    goes_on = False
    with Path(fifo).open("rb") as record, Path(log).open("wb") as copy:
        for line in record:
            copy.write(line)
            copy.flush()
            if stopped := STOPPED.match(line):
                # strace counts the calls of each thread separately, so it stops other threads too.
                goes_on = _stand(int(stopped[1]), Path(reached), gate, goes_on)
    if status[0] < 0:
        os.kill(os.getpid(), -status[0])
    return status[0]


def _stand(process: int, reached: Path, gate: int, goes_on: bool) -> bool:
    """Notify the gate, then continue or kill the stopped process as the gate says; kill it if the
    gate is gone. Returns whether later processes may continue without asking, as with
    ``goes_on``."""
    answer = b"g" if goes_on else b"k"
    with contextlib.suppress(OSError):
        if not goes_on:
            descriptor = os.open(reached, os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, b"r")
            os.close(descriptor)
            answer = os.read(gate, 1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT if answer == b"g" else signal.SIGKILL)
    return answer == b"g"


if __name__ == "__main__":
    sys.exit(main())
