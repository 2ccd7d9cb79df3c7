"""Starting commands and getting rid of them: own process group, deadline, nobody left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from pytest_ascendcache.toolchains.protocol import ToolchainError

_OUTPUT_TAIL = 16_384
"""Bytes of a command's output that are kept: its end, where the error is."""


@dataclass(frozen=True)
class Ended:
    """Exit status (negative: signal; ``None``: deadline passed, group killed) and output."""

    returncode: int | None
    output: str
    left_behind: int = 0
    """Processes of its group that still ran when it had ended by itself; they are killed too."""


class Running(Protocol):
    """A started command."""

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
    """Starts each program as a fresh process. ``programs`` are the first words of each."""

    programs: Mapping[str, tuple[str, ...]]

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """See :class:`Launcher`."""
        return (*self.programs[program], *arguments)

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        work: Path,
        umask: int | None,
    ) -> Running:
        """See :class:`Launcher`."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process was waited for
        try:
            process = subprocess.Popen(
                self.argv(program, arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=work,
                env=dict(environment),
                start_new_session=True,
                umask=-1 if umask is None else umask,
            )
        except OSError as error:
            output.close()
            raise ToolchainError(
                f"'{self.programs[program][0]}' cannot be started: {error.strerror}."
            ) from None
        return _RunningProcess(process, output)

    def close(self) -> None:
        """Nothing is kept running."""


@dataclass(frozen=True)
class _RunningProcess:
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def kill(self) -> None:
        """See :class:`Running`."""
        kill_group(self.process.pid)

    def wait(self, deadline: float) -> Ended:
        """See :class:`Running`."""
        ended = False
        left_behind = 0
        try:
            ended = self._ends_before(deadline)
            left_behind = running_in_group(self.process.pid) if ended else 0
        finally:  # also when the test run is interrupted
            kill_group(self.process.pid)
            returncode = self.process.wait()
            tail = read_tail(self.output)
        return Ended(returncode if ended else None, tail, left_behind)

    def _ends_before(self, deadline: float) -> bool:
        try:
            # A process descriptor wakes at the moment of exit; Popen's own timeout polls.
            descriptor = os.pidfd_open(self.process.pid)
        except OSError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(max(0.0, deadline - time.monotonic()))
            return self.process.returncode is not None
        try:
            return wait_readable(descriptor, deadline)
        finally:
            os.close(descriptor)


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
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # "pid (name) state parent group ..."; a name may hold anything.
            state, _, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # ended meanwhile
        count += int(group) == leader and state not in "ZX"
    return count


def read_tail(output: IO[bytes]) -> str:
    """The end of what was written to a file, as text; closes it."""
    with output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _OUTPUT_TAIL))
        return output.read().decode("utf-8", "replace")
