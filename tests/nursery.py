"""What a run of pytest starts, forked from a process that has imported everything already.

An xdist worker, or the reference's fork server, that is started anew imports pytest, LLVM and the
suite, which takes longer than what most tests have it do. In :func:`forked` both are forked from a
nursery: a process that was forked before the run had a configuration or threads, so that what it
forks knows nothing of the run either. Workers whose Python is named (``--tx popen//python=...``)
and those of other hosts are started as usual.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from pytest_ascendcache.reference.fork import exit_with

_SERVERS = ("pytest_ascendcache.reference.forkserver", "pytest_ascendcache.qualification.defective")
_HIGH = 200
"""Above every descriptor that a program is given by number."""


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Have the run of pytest in this block fork its workers and fork servers."""
    from execnet import gateway_io

    from pytest_ascendcache.processes import forked as launcher

    nursery = _Nursery()
    usual = gateway_io.Popen2IOMaster.__init__
    worker = [sys.executable, "-u", "-c", gateway_io.popen_bootstrapline]

    def start_worker(self: Any, args: Sequence[str], execmodel: Any) -> None:
        if [*args] != worker:
            usual(self, args, execmodel)
            return
        (read, write), (answers, answer) = os.pipe(), os.pipe()
        self.popen = nursery.start([], {0: read, 1: answer})
        os.close(read)
        os.close(answer)
        streams = os.fdopen(write, "wb"), os.fdopen(answers, "rb")
        gateway_io.Popen2IO.__init__(self, *streams, execmodel)

    def start_server(command: Sequence[str], **given: Any) -> Any:
        python, option, module, *_ = command
        is_known = (python, option) == (sys.executable, "-m") and module in _SERVERS
        if not is_known or nursery.mounts != _mounts():
            return subprocess.Popen(command, **given)
        words, (requests,) = given["stdout"].fileno(), given["pass_fds"]
        with Path(os.devnull).open("rb") as nothing:
            streams = {0: nothing.fileno(), 1: words, 2: words, requests: requests}
            return nursery.start([*command[2:]], streams, given["env"])

    gateway_io.Popen2IOMaster.__init__ = start_worker  # type: ignore[method-assign]
    launcher.subprocess = types.SimpleNamespace(  # type: ignore[attr-defined]
        **{**vars(subprocess), "Popen": start_server}
    )
    try:
        yield
    finally:
        nursery.close()


class _Child:
    """What is needed of a ``subprocess.Popen``."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                said = self._status.recv(16)  # nothing where the nursery was killed
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self.returncode = os.waitstatus_to_exitcode(int(said)) if said else -signal.SIGKILL
            self._status.close()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:  # otherwise the number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class _Nursery:
    """The process that programs are forked from; it ends after the last of them."""

    def __init__(self) -> None:
        self.mounts = _mounts()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = os.fork()
        if self._process == 0:
            self._requests.close()
            _serve(theirs)
        theirs.close()

    def start(
        self,
        command: Sequence[str],
        streams: Mapping[int, int],
        environment: Mapping[str, str] | None = None,
    ) -> _Child:
        """A module with ``main()`` and its arguments, in a session of its own, or an xdist worker
        where there is none, with these descriptors and this process's directory."""
        request = {
            "command": [*command],
            "directory": str(Path.cwd()),
            "environment": {**(os.environ if environment is None else environment)},
            "streams": [*streams],
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with tempfile.TemporaryFile() as document, theirs:
            document.write(json.dumps(request).encode())
            document.flush()
            given = [document.fileno(), theirs.fileno(), *streams.values()]
            socket.send_fds(self._requests, [b"?"], given)
        return _Child(int(ours.recv(16)), ours)

    def close(self) -> None:
        """Wait for what is left of them."""
        self._requests.close()
        os.waitpid(self._process, 0)


def _serve(requests: socket.socket) -> NoReturn:
    """Fork programs, each below a process that waits for it."""
    minds = []
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 8)
        if not word:
            break
        mind = os.fork()
        if mind == 0:
            requests.close()
            _mind(*descriptors)
        minds.append(mind)
        for each in descriptors:
            os.close(each)
    for mind in minds:
        os.waitpid(mind, 0)
    os._exit(0)


def _mind(document: int, status: int, *given: int) -> NoReturn:
    """Fork one program, and tell its process id, and at its end its wait status."""
    with os.fdopen(document, "rb") as file:
        file.seek(0)
        request = json.load(file)
    program = os.fork()
    if program == 0:
        exit_with(lambda: _be(request, given))
    for each in given:
        os.close(each)
    with socket.socket(fileno=status) as asker, contextlib.suppress(BrokenPipeError):
        asker.send(str(program).encode())
        asker.send(str(os.waitpid(program, 0)[1]).encode())
    os._exit(0)


def _be(request: Mapping[str, Any], given: Sequence[int]) -> int:
    """Be the program that was asked for."""
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, _HIGH) for each in given]
    os.closerange(3, _HIGH)
    for number, each in zip(request["streams"], high, strict=True):
        os.dup2(each, number)
        os.close(each)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    return _server(*request["command"]) if request["command"] else _worker()


def _server(module: str, *arguments: str) -> int:
    """Be ``python -m MODULE ARGUMENTS``."""
    os.setsid()
    sys.stdout, sys.stderr = _text(1), _text(2)
    sys.argv = [module, *arguments]
    code: int = importlib.import_module(module).main()
    return code


def _worker() -> int:
    """Be ``python -u -c`` with execnet's line; what it starts is forked, too."""
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), _text(1)
    sys.argv = ["-c"]
    sys.path[:0] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    with forked():
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(eval(sys.stdin.readline()), module.__dict__)
    return 0


def _mounts() -> Path:
    """The namespace of mounts: a run on nodes has one of its own, which its servers have to see."""
    return Path("/proc/self/ns/mnt").readlink()


def _text(descriptor: int) -> IO[str]:
    return os.fdopen(descriptor, "w", buffering=1, closefd=False)
