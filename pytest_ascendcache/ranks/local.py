"""Ranks as forked processes of one test, watched by a keeper that leaves none behind.

The test process forks a keeper, and the keeper forks the ranks, each as the leader of a session and
process group. The keeper is the hub of their rendezvous and enforces the deadline. As a
*subreaper* it adopts the processes that a rank leaves behind, and ends them too. It ends everything
when the test process goes away.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import IO, Any, NoReturn

from pytest_ascendcache.processes.ending import in_words
from pytest_ascendcache.processes.guard import (
    adopt_orphans,
    die_with_parent,
    end_children,
    wake_on_children,
)
from pytest_ascendcache.processes.launch import read_tail
from pytest_ascendcache.ranks.gang import Gang, Reply
from pytest_ascendcache.ranks.pipes import Line, PipeRendezvous

_GRACE = 5.0
"""Seconds within which ranks must end after the deadline, when their gang was aborted."""

_KEPT_OUTPUT = 4096
"""Bytes of a rank's output that are kept, from its end."""

Body = Callable[[int, PipeRendezvous], Any]


class GangError(Exception):
    """The ranks could not be run, for a reason outside of their test."""


@dataclass(frozen=True)
class RankEnding:
    """How one rank's process ended.

    ``returncode`` is negative for a signal, or None if the deadline passed and the process group
    was killed. ``words`` is the end of its output, ``result`` the return value of its body, or None
    if the body did not return.
    """

    rank: int
    returncode: int | None
    words: str
    result: Any

    def ending(self, seconds: float) -> str:
        """Describes the ending; ``seconds`` is the deadline."""
        return in_words(self.returncode, seconds)


@dataclass(frozen=True)
class GangRun:
    """How each rank ended. ``leftovers`` is the number of other processes that were killed."""

    endings: tuple[RankEnding, ...]
    leftovers: int


def run_gang(name: str, size: int, body: Body, seconds: float) -> GangRun:
    """Run ``body(rank, rendezvous)`` in ``size`` processes at the same time.

    A body must return a JSON value. Ranks that have not ended after ``seconds`` are killed with
    their process groups. When this returns or raises, no process of theirs is left. Raises
    ``GangError`` if the ranks could not be started or their keeper was killed.
    """
    ours, theirs = socket.socketpair()
    keeper = _fork()
    if keeper == 0:
        ours.close()
        _exit_after(lambda: _keep(Line(theirs), name, size, body, seconds))
    theirs.close()
    line = Line(ours)
    try:
        answer = line.receive()
    except EOFError:
        raise GangError(f"gang {name}: the process that watches its ranks was ended") from None
    finally:
        # Closing the line makes the keeper end all ranks, also when the test run is interrupted.
        line.close()
        os.waitpid(keeper, 0)
    if "failure" in answer:
        raise GangError(f"gang {name}: {answer['failure']}")
    return GangRun(tuple(RankEnding(**each) for each in answer["endings"]), answer["leftovers"])


def _fork() -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns if there are threads, as in an xdist worker. The child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _exit_after(work: Callable[[], int]) -> NoReturn:
    """Run ``work`` as the whole of a forked process. Its result is the exit status."""
    code = 70  # EX_SOFTWARE
    try:
        code = work()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _keep(parent: Line, name: str, size: int, body: Body, seconds: float) -> int:
    gc.freeze()  # a collection in a rank would copy every page of the parent's objects
    os.setsid()
    adopt_orphans()
    try:
        keeper = _Keeper(parent, Gang(name, size), seconds)
        answer = keeper.run(body)
    except OSError as error:
        end_children()
        answer = {"failure": f"its ranks could not be started ({error.strerror})"}
    with contextlib.suppress(OSError):
        parent.send(answer)
    return 0


@dataclass
class _Member:
    """A rank's process as the keeper sees it."""

    rank: int
    process: int
    line: Line
    output: IO[bytes]
    returncode: int | None = None
    ended: bool = False
    killed: bool = False
    result: Any = None


class _Keeper:
    def __init__(self, parent: Line, gang: Gang, seconds: float) -> None:
        self._parent = parent
        self._gang = gang
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._expired = False
        self._members: list[_Member] = []
        self._wakeup = wake_on_children()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run handles Ctrl-C

    def run(self, body: Body) -> dict[str, Any]:
        """Start all ranks, watch them until they end, and return how they ended."""
        for rank in range(self._gang.size):
            self._members.append(self._start(rank, body))
        self._watch()
        late = [each for each in self._members if not each.ended]
        for each in late:
            _kill(each.process)
            os.waitpid(each.process, 0)
        leftovers = end_children()
        endings = []
        for each in self._members:
            words = read_tail(each.output, _KEPT_OUTPUT)
            endings.append(RankEnding(each.rank, each.returncode, words, each.result))
        return {"endings": [asdict(each) for each in endings], "leftovers": leftovers}

    def _start(self, rank: int, body: Body) -> _Member:
        ours, theirs = socket.socketpair()
        output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the keeper
        process = os.fork()
        if process == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (self._parent, *(member.line for member in self._members)):
                each.close()
            ours.close()
            _exit_after(lambda: _be_rank(rank, Line(theirs), output, body))
        theirs.close()
        return _Member(rank, process, Line(ours), output)

    def _watch(self) -> None:
        """Watch until all ranks have ended, the deadline is over, or the test process is gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._parent.socket, selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            for member in self._members:
                selector.register(member.line.socket, selectors.EVENT_READ, member)
            while not all(member.ended for member in self._members):
                patience = self._deadline - time.monotonic()
                if patience <= 0:
                    if self._expired:
                        return
                    self._expire()
                    continue
                ready = selector.select(patience)
                for key, _ in ready:
                    if key.fileobj is self._parent.socket:
                        return
                    if isinstance(key.data, _Member) and self._listen(key.data):
                        selector.unregister(key.fileobj)
                if any(key.fd == self._wakeup for key, _ in ready):
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wakeup, 4096)
                    self._reap()

    def _expire(self) -> None:
        """Kill the ranks that the others wait for, and give the others time to report that."""
        self._expired = True
        self._deadline = time.monotonic() + _GRACE
        late = [each for each in self._gang.absent if not self._members[each].ended]
        for rank in late:
            self._members[rank].killed = True
            _kill(self._members[rank].process)
        self._answer(self._gang.lose(late, f"did not come within {self._seconds:g} s"))

    def _reap(self) -> None:
        by_process = {member.process: member for member in self._members}
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return
                if process in by_process:
                    member = by_process[process]
                    member.ended = True
                    if not member.killed:
                        member.returncode = os.waitstatus_to_exitcode(status)
                    self._listen(member)  # its messages from before it ended
                    why = f"was lost: it {in_words(member.returncode, 0)}"
                    self._answer(self._gang.lose([member.rank], why))

    def _listen(self, member: _Member) -> bool:
        """Handle a rank's messages. Returns whether no more can come."""
        messages, ended = member.line.pending()
        for kind, *rest in messages:
            if kind == "enter":
                self._answer(self._gang.enter(member.rank, rest[0]))
            elif kind == "leave":
                self._answer(self._gang.leave(member.rank, rest[0], rest[1]))
            else:
                member.result = rest[0]
        return ended

    def _answer(self, replies: list[Reply]) -> None:
        for reply in replies:
            message: list[Any] = ["abort", reply.why, reply.cause]
            if reply.payloads is not None:
                message = ["go", reply.payloads]
            with contextlib.suppress(OSError):  # the rank has ended, which _reap handles
                patience = max(0.1, self._deadline - time.monotonic())
                self._members[reply.rank].line.send(message, patience)


def _be_rank(rank: int, line: Line, output: IO[bytes], body: Body) -> int:
    os.setsid()
    die_with_parent()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the process's own
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    result = body(rank, PipeRendezvous(line))
    line.send(["result", result])
    return 0


def _kill(process: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not lead a group yet
        with contextlib.suppress(ProcessLookupError):
            kill(process, signal.SIGKILL)
