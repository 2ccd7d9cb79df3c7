"""Runs one command and never outlives the process that asked for it. Standard library only.

``guard.py REQUEST STATUS LIFE OUTPUT`` are descriptors: a JSON file that says what to run
(``command``, ``environ``, ``cwd``, ``umask``), a pipe the guard tells its story on, a pipe whose
other end is closed to have everything killed (a test run that is killed closes it too), and a
file for the end of the output. The story is a line ``started PID`` or ``failed ERRNO``, then
``ended RETURNCODE LEFT_BEHIND``. The guard adopts what the command leaves behind, kills it, and
keeps no more of the output than its end, so that a command may print for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

OUTPUT_TAIL = 16_384
"""Bytes of a command's output that are kept: its end, where the error is."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KILL_PATIENCE = 20.0
"""Seconds killed processes may take to be gone; one in a dead disk's queue may never be."""


def main() -> int:
    """Run the command; the guard itself always ends with 0."""
    request_file, status, life, output = map(int, sys.argv[1:5])
    for descriptor in (request_file, status, life, output):
        os.set_inheritable(descriptor, False)
    with os.fdopen(request_file, "rb") as file:
        file.seek(0)
        request = json.load(file)
    adopt_orphans()
    woken = _wake_on_children()
    said, says = os.pipe()
    leader, refused = _start(request, says)
    os.close(says)
    if refused:
        _tell(status, f"failed {refused}")
        return 0
    _tell(status, f"started {leader}")
    tail = _Tail(said)
    returncode = _attend(leader, life, woken, tail)
    left_behind = 0
    if returncode is not None and _reaped()[1]:
        left_behind = len(_descendants())
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    killed = _end_all(leader, woken)
    tail.read()
    os.write(output, tail.text)
    _tell(status, f"ended {killed if returncode is None else returncode} {left_behind}")
    return 0


def _start(request: dict[str, Any], says: int) -> tuple[int, int]:
    """Process id of the command and 0, or the number of the error that kept it from starting."""
    failed, fails = os.pipe()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(request, says, guard)
        except OSError as error:
            os.write(fails, str(error.errno or errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(fails)
    with os.fdopen(failed, "rb") as file:
        return child, int(file.read() or 0)


_AS_A_SHELL_HAS_THEM = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),  # Python has changed these
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),  # nohup and & ignore some
)


def _become(request: dict[str, Any], says: int, guard: int) -> NoReturn:
    os.setsid()
    # The guard kills all there is; if it is killed itself, the command at least goes with it.
    die_with_parent()
    if os.getppid() != guard:
        os._exit(127)
    for number in _AS_A_SHELL_HAS_THEM:
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    if request["umask"] is not None:
        os.umask(request["umask"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(says, 1)
    os.dup2(says, 2)
    command, environ = request["command"], request["environ"]
    os.execvpe(command[0], command, environ)


def _attend(leader: int, life: int, woken: int, tail: _Tail) -> int | None:
    """The command's return code; ``None`` where it is to be killed."""
    poll = select.poll()
    for descriptor in (tail.descriptor, life, woken):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if tail.descriptor in ready and not tail.read():
            poll.unregister(tail.descriptor)
        if life in ready:
            return None
        if woken in ready:
            os.read(woken, 4096)
            ended, _ = _reaped()
            if leader in ended:
                return ended[leader]


class _Tail:
    """The end of what is read from a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.text = b""

    def read(self) -> bool:
        """Take what is there, but not for ever; whether there may be more."""
        for _ in range(64):
            try:
                chunk = os.read(self.descriptor, 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.text = (self.text + chunk)[-OUTPUT_TAIL:]
        return True


def _wake_on_children() -> int:
    """A descriptor that is readable when a child has ended."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _reaped() -> tuple[dict[int, int], bool]:
    """Return codes of children that have ended, and whether there are more children."""
    ended: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        return ended, False
    return ended, True


def _end_all(leader: int, woken: int) -> int:
    """Kill whatever descends from this process; the return code of the leader."""
    returncode = -int(signal.SIGKILL)
    deadline = time.monotonic() + _KILL_PATIENCE
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    while time.monotonic() < deadline:
        ended, more = _reaped()
        returncode = ended.get(leader, returncode)
        if not more:
            break
        for process in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        poll.poll(50)
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
    return returncode


def _descendants() -> list[int]:
    """Processes that descend from this one and still run."""
    inside: dict[int, list[int]] = {}
    for process in running_processes():
        inside.setdefault(process.parent, []).append(process.id)
    found, look = [], [os.getpid()]
    while look:
        children = inside.get(look.pop(), [])
        found += children
        look += children
    return found


class Process(NamedTuple):
    """A line of ``/proc``: process, parent and process group, by their ids."""

    id: int
    parent: int
    group: int


def running_processes() -> Iterator[Process]:
    """Every process of this machine that has not ended; zombies have."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs as much as all the rest
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # "pid (name) state parent group ..."; a name may hold anything.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
                if state not in (b"Z", b"X"):
                    yield Process(int(name), int(parent), int(group))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _tell(status: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
