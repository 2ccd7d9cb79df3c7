"""pytest for tests of the plugin, forked from a process that has imported everything already.

Half of a short run is starting Python and importing pytest, LLVM and the suite. One process a test
session does that once, when the first of its servers is asked for; each xdist worker has a server
that is forked from it, and each run is a child of that, with its own directory, environment,
standard streams and pytest, as ``python -m pytest`` would have them. Run as a program this is the
process that servers are forked from.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.fork import exit_with


class Importer:
    """The process that imports everything, for servers to be forked from; to be closed."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="warm-")
        self.place = Path(self._directory.name, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(str(self.place))
            listening.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """End it, after the servers whose clients have gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._directory.cleanup()


class WarmPytest:
    """The client of a server, which is forked with the first run and ends with :meth:`close`.

    ``place`` is that of the :class:`Importer`.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], directory: Path, output: Path, errors: Path, seconds: float
    ) -> int:
        """Run ``pytest`` with the environment of this process; its exit status.

        Raises:
            TimeoutError: after ``seconds``; the run is killed then.
        """
        server = self._connect()
        # As pytester has it: what a test writes into its directory can be imported.
        path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))
        request = {
            "arguments": list(arguments),
            "directory": str(directory),
            "environment": {**os.environ, "PYTHONPATH": path},
            "output": str(output),
            "errors": str(errors),
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, tempfile.TemporaryFile() as document:
            document.write(json.dumps(request).encode())
            document.flush()
            with theirs:
                socket.send_fds(server, [b"?"], [document.fileno(), theirs.fileno()])
            ours.settimeout(seconds)
            # Closing our end is what tells the server that nobody waits any more.
            status = ours.recv(16)
        return os.waitstatus_to_exitcode(int(status))

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.connect(str(self._place))
        return self._socket

    def close(self) -> None:
        """End the server and what it still runs."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def main() -> int:
    """The importer: forks a server for each client, as long as its standard input is open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run's Ctrl-C ends the clients
    poll = select.poll()
    servers: list[int] = []
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        poll.register(listening, select.POLLIN)
        poll.register(0, select.POLLHUP)
        while not any(descriptor == 0 for descriptor, _ in poll.poll()):
            requests, _ = listening.accept()
            if not servers:
                _import_everything()
            server = os.fork()
            if server == 0:
                listening.close()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                exit_with(partial(_serve, requests))
            servers.append(server)
            requests.close()
    for each in servers:
        os.waitpid(each, 0)
    return 0


def _serve(requests: socket.socket) -> int:
    """The server: one run at a time, as long as its client lives."""
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 2)
        if not word:
            return 0
        document, asker = descriptors
        with os.fdopen(document, "rb") as file:
            file.seek(0)
            request = json.load(file)
        with socket.socket(fileno=asker) as answers:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                requests.close()
                answers.close()
                exit_with(partial(_be_pytest, request))
            status = _wait(child, answers)
            with contextlib.suppress(BrokenPipeError):
                answers.send(str(status).encode())


def _import_everything() -> None:
    """Import pytest, its plugins and the suite; collecting it imports it as pytest does."""
    # What Hypothesis finds in our modules it keeps where the tests' own runs keep it.
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).parents[1] / ".hypothesis")
    import pytest

    with (
        tempfile.TemporaryDirectory() as empty,
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.chdir(empty) if sys.version_info >= (3, 11) else contextlib.nullcontext(),
    ):
        fixed = ["-q", "-s", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={empty}"]
        suite = [
            "--ascend-toolchain=reference",
            "--ascend-cache",
            "--pyargs",
            "pytest_ascendcache.conformance",
        ]
        code = pytest.main([*fixed, "--collect-only", *suite])
    if code != 0:
        raise SystemExit(f"the suite cannot be collected:\n{said.getvalue()}")
    import nursery  # beside this file, which is a program here
    from _pytest.assertion.rewrite import AssertionRewritingHook

    from pytest_ascendcache.qualification.runs import import_what_runs_import
    from pytest_ascendcache.reference import forkserver

    assert nursery
    import_what_runs_import()
    forkserver.preload()
    _let_hypothesis_read_it()
    gc.enable()

    # What is imported here was rewritten by the run above; each fork would warn that it was not.
    AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()


def _let_hypothesis_read_it() -> None:
    """Have Hypothesis look for constants in what is imported now, as it does at the end of each
    collection: what it has read it does not read again. What it keeps of runs is theirs again."""
    from hypothesis import configuration

    with contextlib.suppress(ImportError):  # older releases have none
        from hypothesis.internal.conjecture.providers import _get_local_constants

        _get_local_constants()
    configuration.set_hypothesis_home_dir(None)


def _wait(child: int, answers: socket.socket) -> int:
    """The child's wait status; it is killed when its asker has gone."""
    descriptor = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(answers, select.POLLIN | select.POLLHUP)
        ready = [each for each, _ in poll.poll()]
        if descriptor not in ready:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]
    finally:
        os.close(descriptor)


def _be_pytest(request: dict[str, Any]) -> int:
    """Be ``python -m pytest`` in the asked directory and environment."""
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    for stream, name in ((1, "output"), (2, "errors")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
        os.close(file)
    tempfile.tempdir = None
    import pytest

    sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *request["arguments"]]
    sys.path.insert(0, request["directory"])
    # xdist gives its workers the path it found when it was imported.
    from xdist.plugin import _sys_path

    _sys_path.insert(0, request["directory"])
    from nursery import forked

    with forked():
        return int(pytest.main(request["arguments"]))


if __name__ == "__main__":
    sys.exit(main())
