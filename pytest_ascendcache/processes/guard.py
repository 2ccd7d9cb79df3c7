"""Runs one command and never outlives the process that asked for it. Standard library only.

``guard.py REQUEST STATUS LIFE OUTPUT`` takes four descriptors. REQUEST is a JSON file with
``command``, ``environ``, ``cwd``, ``umask`` and ``unprivileged``. On the pipe STATUS the guard
reports ``started PID`` or ``failed ERRNO``, then ``ended RETURNCODE LEFT_BEHIND PRINTED`` (bytes).
When the other end of the pipe LIFE closes, as it does if the test run is killed, the guard kills
everything. The end of the output goes to the file OUTPUT: a command may print for ever. Processes
that outlive the command are adopted and killed, but not while other guards' commands run: a server
that one of them has started may serve them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

OUTPUT_TAIL = 16_384
"""Bytes kept of a command's output: its end, where the error is."""

_PR_SET_PDEATHSIG, _PR_SET_SECUREBITS, _PR_SET_CHILD_SUBREAPER = 1, 28, 36
_SECBIT_NOROOT = 1
"""A program that root executes gets no capabilities."""
_KILL_PATIENCE = 20.0
"""Seconds killed processes may take to disappear. One that waits for a dead disk may never do."""

_GIVES_WAY = 5.0
"""Seconds for which the killing of what a command left behind waits for other commands to end, and
a command for that killing."""
_ROOM = os.path.dirname(__file__)  # noqa: PTH120 - pathlib costs as much as all the rest

_CHILDREN_PATIENCE = 10.0
"""The same for the killed children of a keeper of ranks."""


def main() -> int:
    """Run the command. The guard itself always exits with 0."""
    request_file, status, life, output = map(int, sys.argv[1:5])
    for descriptor in (request_file, status, life, output):
        os.set_inheritable(descriptor, False)
    with os.fdopen(request_file, "rb") as file:
        file.seek(0)
        request = json.load(file)
    adopt_orphans()
    woken = wake_on_children()
    printed, prints = os.pipe()
    turn = _take_turn()
    leader, refused = _start(request, prints)
    os.close(prints)
    if refused:
        _report(status, f"failed {refused}")
        return 0
    _report(status, f"started {leader}")
    tail = _Tail(printed)
    returncode = _attend(leader, life, woken, tail)
    left_behind = 0
    if returncode is not None and _reaped()[1]:
        left_behind = len(_descendants())
        _wait_for_others(turn)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    killed = _end_all(leader, woken)
    tail.read()
    os.write(output, tail.text)
    code = killed if returncode is None else returncode
    _report(status, f"ended {code} {left_behind} {tail.size}")
    return 0


def _take_turn() -> int:
    """A descriptor whose lock this guard shares with all guards whose commands run. Files of this
    package serve as locks. A guard that waits for the others goes first."""
    door, turn = (os.open(path, os.O_RDONLY) for path in (_ROOM, __file__))
    with _giving_way():
        fcntl.flock(door, fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_SH)
    os.close(door)
    return turn


def _wait_for_others(turn: int) -> None:
    """Wait until the command of no other guard runs, and keep them from starting one."""
    door = os.open(_ROOM, os.O_RDONLY)
    with _giving_way():
        fcntl.flock(turn, fcntl.LOCK_UN)  # its own command runs no more
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_EX)


@contextlib.contextmanager
def _giving_way() -> Iterator[None]:
    """Give up after a while, and where a file system has no locks: then nobody is waited for."""

    def gives_up(*_: object) -> NoReturn:
        raise TimeoutError

    signal.signal(signal.SIGALRM, gives_up)
    with contextlib.suppress(OSError):
        try:
            signal.setitimer(signal.ITIMER_REAL, _GIVES_WAY)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _start(request: dict[str, Any], prints: int) -> tuple[int, int]:
    """The command's process id and 0, or the errno that kept the command from starting."""
    failed, fails = os.pipe()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(request, prints, guard)
        except OSError as error:
            os.write(fails, str(error.errno or errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(fails)
    with os.fdopen(failed, "rb") as file:
        return child, int(file.read() or 0)


_RESET_SIGNALS = (
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),  # Python has changed these
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM),  # nohup and & ignore some
)


def _become(request: dict[str, Any], prints: int, guard: int) -> NoReturn:
    os.setsid()
    # The guard kills every descendant. If the guard is killed, at least the command dies with it.
    die_with_parent()
    if os.getppid() != guard:
        os._exit(127)
    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    if request["umask"] is not None:
        os.umask(request["umask"])
    if request.get("unprivileged") and os.geteuid() == 0:
        _prctl(_PR_SET_SECUREBITS, _SECBIT_NOROOT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(prints, 1)
    os.dup2(prints, 2)
    command, environ = request["command"], request["environ"]
    os.execvpe(command[0], command, environ)


def _attend(leader: int, life: int, woken: int, tail: _Tail) -> int | None:
    """Wait for the command's return code; None if the command is to be killed."""
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
    """The end of what a pipe delivers."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.text = b""
        self.size = 0

    def read(self) -> bool:
        """Read what is available, within limits. Returns whether the pipe is still open."""
        for _ in range(64):
            try:
                chunk = os.read(self.descriptor, 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.size += len(chunk)
            self.text = (self.text + chunk)[-OUTPUT_TAIL:]
        return True


def wake_on_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _reaped() -> tuple[dict[int, int], bool]:
    """Return codes of the children that have ended, and whether others are left."""
    ended: dict[int, int] = {}
    try:
        while (child := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[child[0]] = os.waitstatus_to_exitcode(child[1])
    except ChildProcessError:
        return ended, False
    return ended, True


def _end_all(leader: int, woken: int) -> int:
    """Kill every descendant of this process; return the leader's return code."""
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
    """The running descendants of this process."""
    children: dict[int, list[int]] = {}
    for process in running_processes():
        children.setdefault(process.parent, []).append(process.id)
    descendants, parents = [], [os.getpid()]
    while parents:
        more = children.get(parents.pop(), [])
        descendants += more
        parents += more
    return descendants


class Process(NamedTuple):
    """One process of ``/proc``: the ids of the process, its parent and its process group."""

    id: int
    parent: int
    group: int


def running_processes() -> Iterator[Process]:
    """Every running process of this machine; zombies have ended."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs as much as all the rest
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # "pid (name) state parent group ..."; the name may contain parentheses and spaces.
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
                if state not in (b"Z", b"X"):
                    yield Process(int(name), int(parent), int(group))


def end_children() -> int:
    """Kill every child, adopted ones included, until none is left. Returns how many were killed.
    The children of a killed child are adopted by this process and killed next."""
    killed: set[int] = set()
    deadline = time.monotonic() + _CHILDREN_PATIENCE
    while time.monotonic() < deadline:
        if not _reaped()[1]:
            break
        for process in running_processes():
            if process.parent == os.getpid():
                killed.add(process.id)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.id, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return len(killed)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _report(status: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
