"""Forks the processes of a run of pytest from a process that has already imported everything.

A new xdist worker or fork server of the reference imports pytest, LLVM and the suite, which takes
longer than most tests. Inside :func:`forked` both are forked from a nursery. There are two of them.
The nursery of workers is forked before the run has a configuration or threads, so its children know
nothing of the run. The nursery of servers is forked before pytest and the suite are imported,
because half of a compile's time goes into copying the server's memory. Workers with another Python
(``--tx popen//python=...``) and workers on other hosts start as usual.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from forking import ask, read_request, take_over

from pytest_ascendcache.reference.fork import exit_with

_SERVERS = ("pytest_ascendcache.reference.forkserver", "pytest_ascendcache.qualification.defective")
_HIGH = 200
"""A number above all descriptors that programs receive by number."""


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Fork the workers and fork servers of the run of pytest in this block."""
    from execnet import gateway_io

    from pytest_ascendcache.processes import forked as launcher

    nursery, of_servers = Nursery(), SERVERS[-1]
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

    def start_server(command: Sequence[str], **options: Any) -> Any:
        python, option, module, *_ = command
        is_known = (python, option) == (sys.executable, "-m") and module in _SERVERS
        if not is_known or of_servers.mounts != _mounts():
            return subprocess.Popen(command, **options)
        words, (requests,) = options["stdout"].fileno(), options["pass_fds"]
        with Path(os.devnull).open("rb") as nothing:
            streams = {0: nothing.fileno(), 1: words, 2: words, requests: requests}
            return of_servers.start([*command[2:]], streams, options["env"])

    gateway_io.Popen2IOMaster.__init__ = start_worker  # type: ignore[method-assign]
    launcher.subprocess = types.SimpleNamespace(  # type: ignore[attr-defined]
        **{**vars(subprocess), "Popen": start_server}
    )
    try:
        yield
    finally:
        nursery.close()


class _Child:
    """The part of ``subprocess.Popen`` that the callers use."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                status = self._status.recv(16)  # empty if the nursery has been killed
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            killed = -signal.SIGKILL
            self.returncode = os.waitstatus_to_exitcode(int(status)) if status else killed
            self._status.close()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:  # otherwise another process may have its number
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """A process that forks programs, and ends after the last of them.

    Children of this process can send it requests, too.
    """

    def __init__(self) -> None:
        self.mounts = _mounts()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:  # a worker keeps descriptors as high as this one
            high = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        self._requests = socket.socket(fileno=high)
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
        """Start ``main()`` of a module with its arguments, or an xdist worker without a module.

        The program gets these descriptors and this process's directory. A module runs in a new
        session.
        """
        request = {
            "command": [*command],
            "directory": str(Path.cwd()),
            "environment": {**(os.environ if environment is None else environment)},
            "streams": [*streams],
        }
        status = ask(self._requests, request, *streams.values())
        return _Child(int(status.recv(16)), status)

    def close(self) -> None:
        """Wait for the remaining programs."""
        self._requests.close()
        os.waitpid(self._process, 0)


SERVERS: list[Nursery] = []
"""The nursery of fork servers, which warm_pytest.py starts."""


def _serve(requests: socket.socket) -> NoReturn:
    """Fork programs. Each one is the child of a process that waits for it."""
    waiters: set[int] = set()
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 8)
        if not word:
            break
        waiter = os.fork()
        if waiter == 0:
            requests.close()
            _wait_for_one(*descriptors)
        waiters = {each for each in waiters if os.waitpid(each, os.WNOHANG) == (0, 0)} | {waiter}
        for each in descriptors:
            os.close(each)
    for waiter in waiters:
        os.waitpid(waiter, 0)
    os._exit(0)


def _wait_for_one(document: int, status: int, *streams: int) -> NoReturn:
    """Fork one program. Send its process id, and when it ends, its wait status."""
    request = read_request(document)
    program = os.fork()
    if program == 0:
        exit_with(lambda: _be(request, streams))
    for each in streams:
        os.close(each)
    with socket.socket(fileno=status) as asker, contextlib.suppress(BrokenPipeError):
        asker.send(str(program).encode())
        asker.send(str(os.waitpid(program, 0)[1]).encode())
    os._exit(0)


def _be(request: dict[str, Any], streams: Sequence[int]) -> int:
    """Run the requested program in this process."""
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, _HIGH) for each in streams]
    os.closerange(3, _HIGH)
    for number, each in zip(request["streams"], high, strict=True):
        os.dup2(each, number)
        os.close(each)
    take_over(request)
    return _server(*request["command"]) if request["command"] else _worker()


def _server(module: str, *arguments: str) -> int:
    """Do what ``python -m MODULE ARGUMENTS`` does."""
    os.setsid()
    sys.stdout, sys.stderr = _text(1), _text(2)
    sys.argv = [module, *arguments]
    code: int = importlib.import_module(module).main()
    return code


def _worker() -> int:
    """Do what ``python -u -c`` does with execnet's line. The worker's programs are forked too."""
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), _text(1)
    sys.argv = ["-c"]
    sys.path[:0] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    with forked():
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(eval(sys.stdin.readline()), module.__dict__)
    return 0


def _mounts() -> Path:
    """Return the mount namespace. The servers of a run on nodes must share the run's namespace."""
    return Path("/proc/self/ns/mnt").readlink()


def _text(descriptor: int) -> IO[str]:
    return os.fdopen(descriptor, "w", buffering=1, closefd=False)
