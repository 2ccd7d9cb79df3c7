"""A server that has imported the stand-in atc, and forks one of it for every run.

``python warm.py SOCKET`` is the server; it ends when its standard input is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from pytest_ascendcache.reference.fork import exit_with


@contextlib.contextmanager
def standin_server() -> Iterator[Path]:
    """A running server; its socket."""
    with tempfile.TemporaryDirectory(prefix="standin-") as directory:
        place = Path(directory, "socket")
        command = [sys.executable, __file__, str(place)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield place
            assert server.stdin is not None
            server.stdin.close()


def main() -> int:
    """The server."""
    sys.path.insert(0, str(Path(__file__).parent))
    import atc

    atc.warm()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(sys.argv[1])
        listening.listen(64)
        print("ready", flush=True)
        poll = select.poll()
        poll.register(listening, select.POLLIN)
        poll.register(0, select.POLLHUP)
        while True:
            if any(descriptor == 0 for descriptor, _ in poll.poll()):
                return 0
            connection, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                _serve(connection)
            connection.close()


def _serve(connection: socket.socket) -> NoReturn:
    """Run the stand-in for one client, and kill it if the client goes away first."""
    with contextlib.suppress(BaseException):
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
        child = os.fork()
        if child == 0:
            connection.close()
            exit_with(lambda: _run(*descriptors))
        descriptor = os.pidfd_open(child)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(connection, select.POLLIN | select.POLLHUP)
        if descriptor not in [each for each, _ in poll.poll()]:
            os.killpg(child, signal.SIGKILL)
        connection.send(f"{os.waitpid(child, 0)[1]}".encode())
    os._exit(0)


def _run(document: int, *streams: int) -> int:
    """Be the stand-in with the client's arguments, environment, directory and streams."""
    os.setpgid(0, 0)
    with os.fdopen(document, "rb") as file:
        file.seek(0)
        request = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    tempfile.tempdir = None
    import atc

    atexit._clear()  # what the server registered is not for its runs
    try:
        return atc.main()
    finally:
        atexit._run_exitfuncs()


if __name__ == "__main__":
    sys.exit(main())
