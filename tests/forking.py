"""Runs programs in forks of a warm process that has already imported what they need.

A request is a JSON document with descriptors, sent over a Unix socket. The answer is a wait status.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.fork import exit_with


class Warm:
    """A warm process that runs ``script``, which calls :func:`serve`. Close it after use.

    ``place`` is the path of its socket. Each client that connects gets its own server.
    """

    def __init__(self, script: Path) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="warm-")
        self.place = Path(self._directory.name, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(self.place))
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(listening.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """Close the process's input and wait for its end. Servers end when their clients close."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._directory.cleanup()


def ask(server: socket.socket, request: dict[str, Any], *descriptors: int) -> socket.socket:
    """Send a request. Returns the socket that receives the answer; closing it ends the program."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with tempfile.TemporaryFile() as document, theirs:
        document.write(json.dumps(request).encode())
        document.flush()
        socket.send_fds(server, [b"?"], [document.fileno(), theirs.fileno(), *descriptors])
    return ours


def read_request(document: int) -> dict[str, Any]:
    """Read and close the document of a request."""
    with os.fdopen(document, "rb") as file:
        file.seek(0)
        request: dict[str, Any] = json.load(file)
    return request


def take_over(request: dict[str, Any]) -> None:
    """Give this process the environment and directory of a request."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    tempfile.tempdir = None


def serve(warm_up: Callable[[], None], program: Callable[..., int]) -> int:
    """Fork a server for each client, as long as standard input is open. Scripts call this.

    Servers fork ``program(request, *descriptors)`` for each request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run's Ctrl-C ends the clients
    poll = select.poll()
    servers: set[int] = set()
    is_warm = False
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        poll.register(listening, select.POLLIN)
        poll.register(0, select.POLLHUP)
        while not any(descriptor == 0 for descriptor, _ in poll.poll()):
            requests, _ = listening.accept()
            if not is_warm:
                warm_up()
                is_warm = True
            server = os.fork()
            if server == 0:
                listening.close()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                exit_with(partial(_serve, requests, program))
            requests.close()
            servers = {each for each in servers if os.waitpid(each, os.WNOHANG) == (0, 0)}
            servers.add(server)
    for each in servers:
        os.waitpid(each, 0)
    return 0


def _serve(requests: socket.socket, program: Callable[..., int]) -> int:
    """Run one program at a time until the client closes its connection."""
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 8)
        if not word:
            return 0
        document, asker, *rest = descriptors
        request = read_request(document)
        with socket.socket(fileno=asker) as answers:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.setpgid(0, 0)
                requests.close()
                answers.close()
                exit_with(partial(program, request, *rest))
            for each in rest:
                os.close(each)
            status = _wait(child, answers)
            with contextlib.suppress(BrokenPipeError):
                answers.send(str(status).encode())


def _wait(child: int, answers: socket.socket) -> int:
    """Return the child's wait status. Kills it if the client closes its end first."""
    descriptor = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(answers, select.POLLIN | select.POLLHUP)
        if descriptor not in [each for each, _ in poll.poll()]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]
    finally:
        os.close(descriptor)
