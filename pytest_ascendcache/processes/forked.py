"""Starting the embedded commands by fork from a warm parent. See ``reference.forkserver``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import (
    Ended,
    Running,
    check_not_waited,
    kill_group,
    read_tail,
    running_in_group,
    wait_readable,
)
from pytest_ascendcache.processes.strain import used_by

_START_PATIENCE = 60.0
"""Seconds the server may take to load LLVM on a busy machine."""


class ForkLauncher:
    """Keeps one server process and asks it for children; one that dies is replaced.

    ``server`` is the server's command line without the socket's descriptor; ``programs`` are
    the first words of equivalent fresh processes, for people. ``environment`` is the server's,
    where it is not this process's own.
    """

    def __init__(
        self,
        server: Sequence[str],
        programs: Mapping[str, tuple[str, ...]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = tuple(server)
        self._programs = programs
        self._environment = environment
        self._server: _Server | None = None

    def warm(self) -> None:
        """Start the server now: processes forked from this one after that share it."""
        if self._server is None:
            self._server = _Server(self._command, self._environment)

    def used(self) -> float:
        """Seconds of processors that the server used, with its children that have ended, in steps
        of a clock tick; 0 where there is none, or the system does not say."""
        return 0.0 if self._server is None else used_by(self._server.process)

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """See :class:`Launcher`."""
        return (*self._programs[program], *arguments)

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
            "program": program,
            "argv": list(arguments),
            "environ": dict(environment),
            "cwd": str(work),
            "umask": umask,
        }
        if self._server is not None and self._server.is_gone:
            self.close()
        if self._server is None:
            self._server = _Server(self._command, self._environment)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child was waited for
        status, told = os.pipe()
        try:
            # In a file: a datagram's size is limited, and some environments are large.
            with tempfile.TemporaryFile() as document:
                document.write(json.dumps(request).encode())
                document.flush()
                descriptors = [document.fileno(), output.fileno(), output.fileno(), told]
                socket.send_fds(self._server.requests, [b"?"], descriptors)
        except OSError as error:
            os.close(status)
            output.close()
            raise self._server.dead(f"refused a request ({error.strerror})") from None
        finally:
            os.close(told)
        return _RunningChild(self._server, status, output)

    def close(self) -> None:
        """See :class:`Launcher`."""
        if self._server is not None:
            self._server.close()
            self._server = None


class _Server:
    """The warm parent: started with the first request, ended by closing its socket."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether it has ended; its end of the socket is closed then, in forked processes too."""
        return wait_readable(self.requests.fileno(), 0.0)  # it never sends anything

    def close(self) -> None:
        """Let the server end, and wait for it."""
        self.requests.close()
        try:
            self._process.wait(_START_PATIENCE)
        except subprocess.TimeoutExpired:
            kill_group(self._process.pid)
            self._process.wait()
        self._words.close()

    def dead(self, what: str) -> ToolchainError:
        """The error for a server that does not do its work, with its last words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._words.seek(0)
        words = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return ToolchainError(f"the fork server {what}: {words[-1] if words else 'no word why'}.")


@dataclass
class _RunningChild:
    server: _Server
    status: int
    output: IO[bytes]
    told: bytes = b""

    @property
    def has_ended(self) -> bool:
        """See :class:`Running`."""
        return self.ends_within(0.0)

    def ends_within(self, seconds: float) -> bool:
        """See :class:`Running`."""
        return self._hear(2, time.monotonic() + seconds)

    @property
    def leader(self) -> int:
        """See :class:`Running`."""
        self._hear(1, time.monotonic() + _START_PATIENCE)
        return self._child

    def kill(self) -> None:
        """See :class:`Running`."""
        # It is a child once the server says so.
        if self._hear(1, time.monotonic() + _START_PATIENCE):
            kill_group(self._child)

    def wait(self, deadline: float) -> Ended:
        """See :class:`Running`."""
        check_not_waited(self.output)
        returncode: int | None = None
        left_behind = 0
        try:
            # Until the server has loaded LLVM no child exists; that is not the child's time.
            patience = max(deadline, time.monotonic() + _START_PATIENCE)
            if self._hear(1, patience) and self._hear(2, deadline):
                returncode = os.waitstatus_to_exitcode(int(self.told.split()[1]))
                left_behind = self._left_behind()
        finally:
            os.close(self.status)
            if self._child:
                kill_group(self._child)
            tail = read_tail(self.output)
        return Ended(returncode, tail, left_behind)

    @property
    def _child(self) -> int:
        return int(self.told.split()[0]) if b"\n" in self.told else 0

    def _left_behind(self) -> int:
        try:
            os.killpg(self._child, 0)  # its leader is gone, so this finds nobody as a rule
        except OSError:
            return 0
        return running_in_group(self._child)

    def _hear(self, lines: int, deadline: float) -> bool:
        """Whether the server has told that many lines before ``deadline``."""
        while self.told.count(b"\n") < lines:
            if not wait_readable(self.status, deadline):
                return False
            chunk = os.read(self.status, 64)
            if not chunk:
                raise self.server.dead("ended")
            self.told += chunk
        return True
