"""Starts the commands by fork from a warm parent: the same files, an eighth of the time.

The parent has loaded LLVM and numpy once. Each request arrives as one datagram on a Unix
socket, with the descriptors of the child's standard output, standard error and a pipe on
which the server writes two lines: the child's process id, then its wait status. The child is
the leader of a session and process group of its own. The server ends when its socket closes,
and takes with it what still runs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence

from pytest_ascendcache.reference import atc, run

Program = Callable[[Sequence[str], Mapping[str, str]], int]

PROGRAMS: dict[str, Program] = {"atc": atc.run, "run": run.run}
_LARGEST_REQUEST = 1 << 20


def main(programs: Mapping[str, Program] = PROGRAMS) -> int:
    """Serve the socket whose descriptor is the command's last argument."""
    serve(socket.socket(fileno=int(sys.argv[-1])), programs)
    return 0


def serve(requests: socket.socket, programs: Mapping[str, Program]) -> None:
    """Fork one child a request until the other side closes the socket."""
    _preload()
    running: dict[int, int] = {}
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test run's to handle
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(wakeup_read, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    if not _start(requests, programs, running):
                        return _end(running)
                else:
                    os.read(wakeup_read, 4096)
                    _reap(running)


def _preload() -> None:
    for name in (
        "pytest_ascendcache.reference.compiler",
        "pytest_ascendcache.reference.kernels.execute",
    ):
        importlib.import_module(name)
    from pytest_ascendcache.operators import OperatorSpec, TensorDesc
    from pytest_ascendcache.reference.kernels import KernelOptions, build

    # One compile touches what every compile touches: children share those pages.
    tensor = TensorDesc.of("float16", 2)
    build(OperatorSpec("Abs", (tensor,), (tensor,)), "warm", KernelOptions(soc="Ascend910B1"))
    # A collection in a child would copy every page of the parent's objects.
    gc.collect()
    gc.freeze()
    gc.disable()


def _start(
    requests: socket.socket, programs: Mapping[str, Program], running: dict[int, int]
) -> bool:
    data, descriptors, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 3)
    if not data:
        return False
    output, errors, status = descriptors
    request = json.loads(data)
    child = os.fork()
    if child == 0:
        _child(request, programs, output, errors)
    os.close(output)
    os.close(errors)
    running[child] = status
    _tell(status, child)
    return True


def _child(
    request: dict[str, object], programs: Mapping[str, Program], output: int, errors: int
) -> None:
    """Become the command; never returns."""
    code = 70  # EX_SOFTWARE, unless the command gives its own
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.closerange(3, 4096)
        os.chdir(str(request["cwd"]))
        umask = request["umask"]
        if isinstance(umask, int):
            os.umask(umask)
        environ = request["environ"]
        argv = request["argv"]
        assert isinstance(environ, dict)
        assert isinstance(argv, list)
        os.environ.clear()
        os.environ.update(environ)
        code = programs[str(request["program"])](argv, os.environ)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _reap(running: dict[int, int]) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        pipe = running.pop(child)
        _tell(pipe, status)
        os.close(pipe)


def _end(running: dict[int, int]) -> None:
    for child in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, f"{number}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
