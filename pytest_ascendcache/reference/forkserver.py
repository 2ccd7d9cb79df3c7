"""Starts commands by fork from a warm parent, in a fraction of the time of a new process.

The parent has loaded LLVM and numpy once. Each request arrives on a Unix socket as four
descriptors: a JSON file with the program, the child's standard output and standard error, and a
pipe on which the server writes two lines: the child's process id, then its wait status.

The server forks each child before its request comes. The child leads a new session and process
group. The server kills it when the other end of its pipe is closed, and kills all children and ends
when the socket closes. Several processes can share the socket, since each request brings its own
descriptors.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pytest_ascendcache.reference import atc, run
from pytest_ascendcache.reference.faulty import PROGRAMS as POLICY_PROGRAMS
from pytest_ascendcache.reference.faulty import PolicyProgram, Program, faulty
from pytest_ascendcache.reference.fork import exit_with, stay_warm, take_output
from pytest_ascendcache.reference.om import write_arrays
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel import resident

_SPARES = 2


def programs(
    policies: Callable[[], Policies], known: Mapping[str, PolicyProgram] = POLICY_PROGRAMS
) -> dict[str, Program]:
    """The programs of the server. Every process makes new policies."""

    def plain(program: PolicyProgram) -> Program:
        return lambda argv, environ: program(argv, environ, policies())

    return {
        "run": run.run,
        "resident": resident.start,
        **{name: plain(program) for name, program in known.items()},
        **{f"faulty-{name}": faulty(program, policies) for name, program in known.items()},
    }


PROGRAMS = programs(Policies)


def main(named: Callable[[str], Program] = PROGRAMS.__getitem__) -> int:
    """Serve the socket whose descriptor is the last argument; ``named`` finds a program by name."""
    serve(socket.socket(fileno=int(sys.argv[-1])), named)
    return 0


def serve(requests: socket.socket, named: Callable[[str], Program]) -> None:
    """Run every request in a separate child until the other side closes the socket."""
    preload()
    os.environ.clear()  # every request brings its own
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test run's to handle
    running: dict[int, int] = {}
    spares = deque(_Spare(named) for _ in range(_SPARES))
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for gone in set(ready) - {wakeup_read, requests.fileno()}:
            # Nobody waits for this child any more, because its requester was killed.
            poll.unregister(gone)
            _end(child for child, status in running.items() if status == gone)
        if requests.fileno() in ready:
            request, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
            if not request:
                return _end([*running, *(spare.child for spare in spares)])
            spare = spares.popleft()
            *streams, status = descriptors
            running[spare.child] = status
            poll.register(status, 0)  # reports only that the other end was closed
            _report(status, spare.child)
            spare.give(streams)
            spares.append(_Spare(named))
        if wakeup_read in ready:
            # Last, because it closes descriptors that the events above refer to.
            os.read(wakeup_read, 4096)
            _reap(running, poll)


def preload() -> None:
    """Import everything a compile needs and use it once, so that children inherit it."""
    _load()
    # A garbage collection in a child would copy every page of the parent's objects.
    gc.collect()
    gc.freeze()
    gc.disable()


@functools.cache
def _load() -> None:
    import encodings.cp437
    import encodings.idna

    from pytest_ascendcache.operators import evaluation
    from pytest_ascendcache.reference import compiler
    from pytest_ascendcache.reference.incremental import build
    from pytest_ascendcache.reference.kernels import execute
    from pytest_ascendcache.reference.model import container, conversion, execution
    from pytest_ascendcache.reference.static_kernel import pool
    from pytest_ascendcache.reference.static_kernel.package import carried_archive

    assert all((encodings, evaluation, compiler, build, execute, pool))
    assert all((container, conversion, execution))
    with contextlib.suppress(ImportError):  # only models need it
        importlib.import_module("onnx")
    carried_archive()
    _touch()


def _touch() -> None:
    """Compile, store, reuse and run a kernel, which fills caches that last as long as a process."""
    import numpy

    from pytest_ascendcache.operators import OperatorSpec, TensorDesc
    from pytest_ascendcache.operators.singleop import write_single_op

    tensor = TensorDesc.of("float16", 2)
    operator = OperatorSpec("Abs", (tensor,), (tensor,))
    with (
        tempfile.TemporaryDirectory(prefix="ascendcache-warm-") as directory,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        place = Path(directory)
        write_single_op(place / "op.json", [operator])
        places = {"singleop": "op.json", "output": "out", "op_compiler_cache_dir": "cache"}
        options = {name: str(place / below) for name, below in places.items()}
        options |= {"soc_version": "Ascend910B1", "op_compiler_cache_mode": "enable"}
        environ = {"HOME": directory}
        for _ in range(2):
            atc.run([f"--{name}={value}" for name, value in options.items()], environ)
        write_arrays(place / "inputs.npz", {"0": numpy.zeros(2, numpy.float16)})
        (model,) = place.glob("out/*.om")
        run.run([str(model), str(place / "inputs.npz"), str(place / "outputs.npz")], environ)


class _Spare:
    """A child that waits for a request."""

    def __init__(self, named: Callable[[str], Program]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.child = os.fork()
        if self.child == 0:
            self._ours.close()
            exit_with(lambda: _serve(theirs, named))
        theirs.close()

    def give(self, descriptors: list[int]) -> None:
        """Pass on the request, standard output and standard error."""
        with self._ours, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._ours, [b"?"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(requests: socket.socket, named: Callable[[str], Program]) -> int:
    """Wait for a request, then run its program in this process."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    # A test run under nohup ignores SIGHUP, which its children must not inherit.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(requests, 1, 3)
    if not descriptors:
        return 0  # the server is gone
    document, output, errors = descriptors
    os.lseek(document, 0, os.SEEK_SET)
    with os.fdopen(document, "rb") as file:
        request = json.load(file)
    take_output(output, errors)
    os.chdir(request["cwd"])
    if request["umask"] is not None:
        os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environ"])
    tempfile.tempdir = None  # TMPDIR says
    time.tzset()
    stay_warm()
    return named(request["program"])(request["argv"], os.environ)


def _reap(running: dict[int, int], poll: select.poll) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        pipe = running.pop(child, None)
        if pipe is not None:
            _report(pipe, status)
            with contextlib.suppress(KeyError):
                poll.unregister(pipe)
            os.close(pipe)


def _end(children: Iterable[int]) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _report(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, f"{number}\n".encode())


if __name__ == "__main__":
    sys.exit(main())
