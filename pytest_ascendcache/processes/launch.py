"""Starting commands and getting rid of them: own process group, deadline, nobody left behind."""

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.guard import OUTPUT_TAIL, running_processes

_GUARD = Path(__file__).with_name("guard.py")

_GUARD_PATIENCE = 60.0
"""Seconds a guard may take to start on a busy machine, and to kill what is to be killed."""


@dataclass(frozen=True)
class Ended:
    """Exit status (negative: signal; ``None``: deadline passed, group killed) and output."""

    returncode: int | None
    output: str
    left_behind: int = 0
    """Processes of its group that still ran when it had ended by itself; they are killed too."""


class Running(Protocol):
    """A started command."""

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by now; :meth:`wait` is still due."""

    @property
    def leader(self) -> int:
        """The process id, which is its group's too; another's once it has ended."""

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends in that time; :meth:`wait` is still due."""

    def kill(self) -> None:
        """``kill -9`` its process group now; :meth:`wait` is still due."""

    def wait(self, deadline: float) -> Ended:
        """Wait until ``deadline`` (``time.monotonic``), then kill its process group."""


class Launcher(Protocol):
    """Starts the programs of one toolchain: ``atc``, and ``run`` where it can run kernels."""

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """A command line that does the same as :meth:`start`, for people."""

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        work: Path,
        umask: int | None,
    ) -> Running:
        """Start a program.

        Raises:
            ToolchainError: where it cannot be started.
        """

    def close(self) -> None:
        """End what the launcher itself keeps running."""


@dataclass(frozen=True)
class ProcessLauncher:
    """Starts each program as a fresh process. ``programs`` are the first words of each; another
    is started by its path.

    Each has a guard (``guard.py``) between it and this process, which ends it with all its
    descendants when this process goes, however it goes.
    """

    programs: Mapping[str, tuple[str, ...]]

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """See :class:`Launcher`."""
        words = (program,) if "/" in program else self.programs[program]
        return (*words, *arguments)

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        work: Path,
        umask: int | None,
    ) -> Running:
        """See :class:`Launcher`."""
        request = {
            "command": self.argv(program, arguments),
            "environ": dict(environment),
            "cwd": str(work),
            "umask": umask,
        }
        guarded = _guard(request)
        guarded.hear(1, time.monotonic() + _GUARD_PATIENCE)
        what, _, number = guarded.lines[0].partition(" ") if guarded.lines else ("", "", "")
        if what == "started":
            return guarded
        guarded.wait(0.0)
        why = os.strerror(int(number)) if what == "failed" else "its guard gives no sign of life"
        raise ToolchainError(f"'{self.argv(program, ())[0]}' cannot be started: {why}.")

    def close(self) -> None:
        """Nothing is kept running."""


def _guard(request: Mapping[str, object]) -> _GuardedProcess:
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process was waited for
    status, tells = os.pipe()
    ends, life = os.pipe()
    # In a file: some environments are larger than a pipe.
    with tempfile.TemporaryFile() as document:
        document.write(json.dumps(request).encode())
        document.flush()
        descriptors = [document.fileno(), tells, ends, output.fileno()]
        try:
            process = subprocess.Popen(
                # Neither site-packages nor the user's variables: it has to be there at once.
                [sys.executable, "-I", "-S", str(_GUARD), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is the test run's to handle
            )
        except OSError as error:
            os.close(status)
            os.close(life)
            output.close()
            raise ToolchainError(f"no process can be started: {error.strerror}.") from None
        finally:
            os.close(tells)
            os.close(ends)
    return _GuardedProcess(process, status, life, output)


@dataclass
class _GuardedProcess:
    guard: subprocess.Popen[bytes]
    status: int
    life: int
    output: IO[bytes]
    told: bytes = b""

    @property
    def lines(self) -> list[str]:
        """What the guard has told so far."""
        return self.told.decode().split("\n")[:-1]

    @property
    def has_ended(self) -> bool:
        """See :class:`Running`."""
        return self.ends_within(0.0)

    def ends_within(self, seconds: float) -> bool:
        """See :class:`Running`."""
        return self.hear(2, time.monotonic() + seconds)

    @property
    def leader(self) -> int:
        """See :class:`Running`."""
        return int(self.lines[0].split()[1])

    def kill(self) -> None:
        """See :class:`Running`."""
        if not self.has_ended:  # ended, its number may be another's
            kill_group(self.leader)

    def wait(self, deadline: float) -> Ended:
        """See :class:`Running`."""
        check_not_waited(self.output)
        ended = False
        try:
            ended = self.hear(2, deadline)
        finally:  # also when the test run is interrupted
            os.close(self.life)
            self.hear(2, time.monotonic() + _GUARD_PATIENCE)
            self.guard.kill()  # it has told all, or never will
            self.guard.wait()
            os.close(self.status)
            tail = read_tail(self.output)
        if len(self.lines) < 2:
            if self.lines and self.lines[0].startswith("started"):
                raise ToolchainError("the guard of a process was killed.")
            return Ended(None, tail)
        _, returncode, left_behind = self.lines[1].split()
        return Ended(int(returncode) if ended else None, tail, int(left_behind))

    def hear(self, lines: int, deadline: float) -> bool:
        """Whether the guard has told that many lines before ``deadline``."""
        while self.told.count(b"\n") < lines:
            if not wait_readable(self.status, deadline):
                return False
            chunk = os.read(self.status, 256)
            if not chunk:
                return False
            self.told += chunk
        return True


def wait_readable(descriptor: int, deadline: float) -> bool:
    """Whether a descriptor became readable before ``deadline`` (``time.monotonic``)."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def kill_group(leader: int) -> None:
    """Kill whatever is left of a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def running_in_group(leader: int) -> int:
    """How many processes of a group still run; an ended leader is none of them."""
    return sum(process.group == leader for process in running_processes())


def check_not_waited(output: IO[bytes]) -> None:
    """Refuse to wait twice: closed descriptors may be in other use by now."""
    if output.closed:
        raise ValueError("this process was waited for already.")


def read_tail(output: IO[bytes]) -> str:
    """The end of what was written to a file, as text; closes it."""
    with output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - OUTPUT_TAIL))
        return output.read().decode("utf-8", "replace")
