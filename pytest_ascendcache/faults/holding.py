"""Holds a command that strace runs: a program between the gate and strace.

``python -I holding.py REACHED GO LOG FIFO COMMAND...``. strace stops a process by SIGSTOP when it
returns from the planned system call, and writes that to its log, which is the FIFO. This program
copies the log, and where it says that a process is stopped it tells the gate (``faults.gate``) and
waits until it may go on. It reads pipes only; nothing is polled.
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
    """Entry point; the exit status is strace's."""
    reached, go, log, fifo, *command = sys.argv[1:]
    # The gate has it open for both; when it closes it, reading ends.
    gate = os.open(go, os.O_RDONLY | os.O_CLOEXEC)
    os.mkfifo(fifo, 0o600)
    # Open for both, so that neither side waits for the other to open it.
    both = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
    tracer = subprocess.Popen(command)
    status: list[int] = []

    def end() -> None:
        status.append(tracer.wait())
        os.close(both)

    # Once strace has ended nobody has the pipe open for writing, and reading it ends.
    threading.Thread(target=end).start()
    goes_on = False
    with Path(fifo).open("rb") as record, Path(log).open("wb") as copy:
        for line in record:
            copy.write(line)
            copy.flush()
            if stopped := STOPPED.match(line):
                # strace counts the calls of each thread by itself, and so stops others too.
                goes_on = _stand(int(stopped[1]), Path(reached), gate, goes_on)
    if status[0] < 0:
        os.kill(os.getpid(), -status[0])
    return status[0]


def _stand(process: int, reached: Path, gate: int, goes_on: bool) -> bool:
    """Tell the gate, and do with the stopped process what it says; kill it where it is gone.

    With ``goes_on`` it has said already that all may go on, which is returned.
    """
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
