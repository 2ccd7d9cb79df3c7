"""Starting a command in a process group of its own, with a deadline, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from pytest_ascendcache.processes.guard import OUTPUT_TAIL

_GUARD = Path(__file__).with_name("guard.py")

_GUARD_PATIENCE = 60.0
"""Seconds a guard may take to start on a busy machine, and to kill its processes."""


class ToolchainError(Exception):
    """The toolchain could not be run, so no promise can be judged."""


@dataclass(frozen=True)
class Command:
    """What to start. ``program`` is a launcher's name for it, ``work`` the working directory; a
    ``umask`` of None is inherited. ``unprivileged`` takes root's rights over the files of other
    users from it, as containers do."""

    program: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    work: Path
    umask: int | None = None
    unprivileged: bool = False

    @property
    def surroundings(self) -> dict[str, object]:
        """Environment, working directory and umask, as guards and fork servers read them."""
        return {"environ": dict(self.environment), "cwd": str(self.work), "umask": self.umask}


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``returncode`` is negative for a signal and None if its process group
    was killed at the deadline; ``output`` is the end of what it printed."""

    returncode: int | None
    output: str
    left_behind: int = 0
    """How many processes of its group outlived it. They were killed."""
    printed: int = 0
    """Bytes that it printed; 0 if nobody counted."""


@dataclass
class Running(ABC):
    """A started command. Call :meth:`wait` in any case: it frees what the command holds. A guard or
    server reports on the pipe ``status``: one line when the command starts, one when it ends.
    ``output`` is the file the command prints to."""

    status: int
    output: IO[bytes]
    report: bytes = field(default=b"", init=False)

    @property
    @abstractmethod
    def leader(self) -> int:
        """The process id, which is also the id of the group. Another process may have it once the
        command has ended."""

    @abstractmethod
    def kill(self) -> None:
        """``kill -9`` the process group."""

    @abstractmethod
    def wait(self, deadline: float) -> Ended:
        """Wait until ``deadline`` (``time.monotonic``), then kill the process group."""

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self.ends_within(0.0)

    def ends_within(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the command to end; return whether it did."""
        return self.hears(2, time.monotonic() + seconds)

    @property
    def lines(self) -> list[str]:
        """The lines reported so far."""
        return self.report.decode().split("\n")[:-1]

    def hears(self, lines: int, deadline: float) -> bool:
        """Wait for this many lines until ``deadline``; return whether they have arrived."""
        while self.report.count(b"\n") < lines:
            if not wait_readable(self.status, deadline):
                return False
            chunk = os.read(self.status, 256)
            if not chunk:
                return self.reporter_is_gone()
            self.report += chunk
        return True

    def reporter_is_gone(self) -> bool:
        """What :meth:`hears` returns when the pipe closes too early."""
        return False


class Launcher(Protocol):
    """Starts the programs of one toolchain: ``atc``, and ``run`` if it can run kernels."""

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """An equivalent command line to paste into a shell."""

    def start(self, command: Command) -> Running:
        """Start a program. Raises ``ToolchainError`` if it cannot be started."""

    def close(self) -> None:
        """End what the launcher itself keeps running."""


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts each program as a fresh process.

    ``programs`` maps a program's name to the first words of its command line; a program with a
    slash in its name is started by its path. A guard (``guard.py``) stands between each command
    and this process. However this process ends, the guard kills the command and its descendants.
    """

    programs: Mapping[str, tuple[str, ...]]

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        words = (program,) if "/" in program else self.programs[program]
        return (*words, *arguments)

    def start(self, command: Command) -> Running:
        argv = self.argv(command.program, command.arguments)
        rights = {"unprivileged": command.unprivileged}  # what only guards take away
        guarded = _guard({"command": argv, **command.surroundings, **rights})
        guarded.hears(1, time.monotonic() + _GUARD_PATIENCE)
        event, _, number = guarded.lines[0].partition(" ") if guarded.lines else ("", "", "")
        if event == "started":
            return guarded
        guarded.wait(0.0)
        why = os.strerror(int(number)) if event == "failed" else "its guard does not respond"
        raise ToolchainError(f"'{argv[0]}' cannot be started: {why}.")

    def close(self) -> None:
        """Nothing to do: this launcher keeps nothing running."""


@contextlib.contextmanager
def request_file(request: Mapping[str, object]) -> Iterator[int]:
    """The descriptor of a JSON file. Some environments are larger than a pipe or a datagram."""
    with tempfile.TemporaryFile() as document:
        document.write(json.dumps(request).encode())
        document.flush()
        yield document.fileno()


def _guard(request: Mapping[str, object]) -> _GuardedProcess:
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        try:
            output = ours.enter_context(tempfile.TemporaryFile())
            status, reports = os.pipe()
            ours.callback(os.close, status)
            theirs.callback(os.close, reports)
            ends, life = os.pipe()
            ours.callback(os.close, life)
            theirs.callback(os.close, ends)
            document = theirs.enter_context(request_file(request))
            descriptors = [document, reports, ends, output.fileno()]
            process = subprocess.Popen(
                # Without site-packages and the user's variables Python starts faster.
                [sys.executable, "-I", "-S", str(_GUARD), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C goes to the test run alone
            )
        except OSError as error:
            raise ToolchainError(f"no process can be started: {error.strerror}.") from None
        ours.pop_all()  # wait() closes them
    return _GuardedProcess(status, output, process, life)


@dataclass
class _GuardedProcess(Running):
    guard: subprocess.Popen[bytes]
    life: int

    @property
    def leader(self) -> int:
        return int(self.lines[0].split()[1])

    def kill(self) -> None:
        if not self.has_ended:  # afterwards another process may have its id
            kill_group(self.leader)

    def wait(self, deadline: float) -> Ended:
        check_not_waited(self.output)
        ended = False
        try:
            ended = self.hears(2, deadline)
        finally:  # also if the test run is interrupted
            os.close(self.life)
            self.hears(2, time.monotonic() + _GUARD_PATIENCE)
            self.guard.kill()  # it has reported everything, or never will
            self.guard.wait()
            os.close(self.status)
            tail = read_tail(self.output)
        if len(self.lines) < 2:
            if self.lines and self.lines[0].startswith("started"):
                raise ToolchainError("the guard of a process was killed.")
            return Ended(None, tail)
        returncode, left_behind, printed = map(int, self.lines[1].split()[1:])
        return Ended(returncode if ended else None, tail, left_behind, printed)


def tried(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run a command to see whether it works on this machine. None if it cannot be started or has
    not ended after ``seconds``."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


class Waitable(Protocol):
    """A started process of any kind."""

    def wait(self, deadline: float) -> object:
        """Wait for its end, then kill it."""


def end_all(processes: Sequence[Waitable]) -> None:
    """Kill the processes that nobody has waited for yet."""
    for process in processes:
        with contextlib.suppress(ToolchainError, OSError, ValueError):
            process.wait(0.0)


def wait_readable(descriptor: int, deadline: float) -> bool:
    """Wait for data on a descriptor until ``deadline`` (``time.monotonic``); return whether there
    is any."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def kill_group(leader: int) -> None:
    """Kill every process left in a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def check_not_waited(output: IO[bytes]) -> None:
    """Refuse to wait a second time: the closed descriptors may be in use elsewhere."""
    if output.closed:
        raise ValueError("this process was waited for already.")


def read_tail(output: IO[bytes], most: int = OUTPUT_TAIL) -> str:
    """The last ``most`` bytes of a file, as text. Closes the file."""
    with output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - most))
        return output.read().decode("utf-8", "replace")
