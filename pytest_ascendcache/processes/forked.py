"""Starting commands by fork from a server that has loaded everything. See ``reference.forkserver``
for the server's side of the protocol."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_ascendcache.processes.guard import running_processes
from pytest_ascendcache.processes.launch import (
    Command,
    Ended,
    ProcessLauncher,
    Running,
    ToolchainError,
    check_not_waited,
    kill_group,
    read_tail,
    request_file,
    wait_readable,
)

_START_PATIENCE = 60.0
"""Seconds the server may take to load LLVM on a busy machine."""


@dataclass(eq=False)
class ForkLauncher:
    """Keeps one server that forks a child for each command. A server that dies is replaced.

    ``server`` is the server's command line without the socket's descriptor. ``programs`` are the
    first words of equivalent fresh processes, for command lines to paste. ``environment`` is the
    server's; by default it inherits that of this process.
    """

    server: Sequence[str]
    programs: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] | None = None
    _server: _Server | None = field(default=None, init=False)

    def warm(self) -> _Server:
        """Start the server now, so that processes forked from this one share it."""
        if self._server is None:
            self._server = _Server(self.server, self.environment)
        return self._server

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return (*self.programs[program], *arguments)

    def start(self, command: Command) -> Running:
        if command.unprivileged:  # a fork keeps the server's rights
            return ProcessLauncher(self.programs).start(command)
        request = {
            "program": command.program,
            "argv": list(command.arguments),
            **command.surroundings,
        }
        if self._server is not None and self._server.is_gone:
            self.close()
        server = self.warm()
        output = tempfile.TemporaryFile()  # noqa: SIM115 - wait() closes it
        status, reports = os.pipe()
        try:
            with request_file(request) as document:
                descriptors = [document, output.fileno(), output.fileno(), reports]
                socket.send_fds(server.requests, [b"?"], descriptors)
        except OSError as error:
            os.close(status)
            output.close()
            raise server.dead(f"refused a request ({error.strerror})") from None
        finally:
            os.close(reports)
        return _RunningChild(status, output, server)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class _Server:
    """The process that forks children. It ends when its socket is closed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment,
            )

    @property
    def is_gone(self) -> bool:
        """Whether the server has ended, which closes its end of the socket. A process forked from
        this one sees that too."""
        return wait_readable(self.requests.fileno(), 0.0)  # the server never sends anything

    def close(self) -> None:
        """Let the server end, and wait for it."""
        self.requests.close()
        try:
            self.process.wait(_START_PATIENCE)
        except subprocess.TimeoutExpired:
            kill_group(self.process.pid)
            self.process.wait()
        self._output.close()

    def dead(self, what: str) -> ToolchainError:
        """The error for a server that fails, with the last line it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else "it printed no reason"
        return ToolchainError(f"the fork server {what}: {reason}.")


@dataclass
class _RunningChild(Running):
    server: _Server

    @property
    def leader(self) -> int:
        self._is_forked()
        return self._child

    def kill(self) -> None:
        # The child exists only after the server has reported its pid.
        if self._is_forked():
            kill_group(self._child)

    def wait(self, deadline: float) -> Ended:
        check_not_waited(self.output)
        returncode: int | None = None
        left_behind = 0
        try:
            # The child's time begins when the server has loaded LLVM and forked it.
            if self._is_forked(deadline) and self.hears(2, deadline):
                returncode = os.waitstatus_to_exitcode(int(self.lines[1]))
                left_behind = self._left_behind()
        finally:
            os.close(self.status)
            if self._child:
                kill_group(self._child)
            tail = read_tail(self.output)
        return Ended(returncode, tail, left_behind)

    def reporter_is_gone(self) -> bool:
        raise self.server.dead("ended")

    @property
    def _child(self) -> int:
        return int(self.lines[0]) if self.lines else 0

    def _is_forked(self, deadline: float = 0.0) -> bool:
        """Wait for the server to fork the child; return whether it has."""
        return self.hears(1, max(deadline, time.monotonic() + _START_PATIENCE))

    def _left_behind(self) -> int:
        try:
            os.killpg(self._child, 0)  # fails unless the ended child left processes behind
        except OSError:
            return 0
        return sum(process.group == self._child for process in running_processes())
