"""Starts scripts by fork from a Python that has imported MindSpore: a tenth of the time.

A program of the wheel's own Python (3.9 or newer) and of nothing else. It speaks the protocol of
``processes.forked``: each request arrives as four descriptors, a JSON file that says what to run,
standard output, standard error, and a pipe that is told the child's process id and then its wait
status. Nothing but the import is shared: no context is set and no cache is looked at before the
fork, and the child ends as every Python does. Of what MindSpore reads while it is imported, the
entry script is the child's (``_enter``); how it logs is the server's, so requests about that have
processes of their own.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

GIVEN = "ASCENDCACHE_GIVEN"
"""Names of the variables the server was started with, joined by commas: what else it has was put
there by a wrapper around its Python, and is every child's too."""

ENTRY, ENTRY_MODULES = "entry_script_path", ("mindspore.graph.api", "mindspore.common.api")
"""Where MindSpore (2.8.0 to 2.10.0) notes the entry script; a release that notes it elsewhere is
not forked."""


def main() -> None:
    """Serve the socket whose descriptor is the last argument; returns in children only."""
    given = {GIVEN, "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", *os.environ[GIVEN].split(",")}
    own = {name: value for name, value in os.environ.items() if name not in given}
    before = dict(os.environ)
    importlib.import_module("mindspore")  # what children need not import
    _quicken_builds()

    exported = {name: value for name, value in os.environ.items() if name not in before}
    # A collection in a child would copy every page of the parent's objects.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[-1]))
    request = _serve(requests)
    os.environ.clear()
    os.environ.update({**exported, **request["environ"], **own})
    os.chdir(request["cwd"])
    if request["umask"] is not None:
        os.umask(request["umask"])
    sys.argv[:] = request["argv"]
    _enter(request["argv"][0])
    runpy.run_path(request["argv"][0], run_name="__main__")


BUILDER = """\
#!{python}
import importlib.machinery, importlib.util, os, runpy, sys
def bare(name, where=None):
    spec = importlib.machinery.PathFinder.find_spec(name, where)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    return sys.modules[name]
program = sys.argv[1]
if not program.endswith(".py"):
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
package = bare("mindspore")
package._extends = bare("mindspore._extends", package.__path__)
sys.argv = sys.argv[1:]
runpy.run_path(program, run_name="__main__")
"""
"""What MindSpore starts in the place of its Python for every build of kernels: the same program
of its own, in the same place among the processes, but for the import of all of MindSpore, which
that program does not use."""

_PATIENCE = 60.0


def _quicken_builds() -> None:
    """Have builds of kernels begin at once; where that does not work they begin as ever."""
    try:
        server = importlib.util.find_spec("mindspore._extends.remote.kernel_build_server_akg")
        executor = importlib.import_module("mindspore.common.api")._cell_graph_executor
        written = os.memfd_create("builder")  # no file is left behind, however this ends
        os.write(written, BUILDER.format(python=sys.executable).encode())
        # What is open for writing cannot be run.
        memory = os.open(f"/proc/self/fd/{written}", os.O_RDONLY | os.O_CLOEXEC)
        os.close(written)
        builder = f"/proc/{os.getpid()}/fd/{memory}"
        # It has nothing to read, and so ends.
        command = [builder, str(server and server.origin), "0", "1"]
        devnull = subprocess.DEVNULL
        subprocess.run(command, stdin=devnull, stdout=devnull, check=True, timeout=_PATIENCE)
        executor._graph_executor.set_py_exe_path(builder)
    except (ImportError, AttributeError, OSError, subprocess.SubprocessError):
        return


def _enter(script: str) -> None:
    """Make a script the entry script: of this Python, and of MindSpore, whose key it is."""
    sys.path[0] = str(Path(script).parent)
    for name in ENTRY_MODULES:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, ENTRY):
            entry = Path(script).resolve()
            setattr(module, ENTRY, str(entry))
            module.sys_path[:] = [each for each in sys.path if each != str(entry.parent)]


def _serve(requests: socket.socket) -> dict:  # type: ignore[type-arg] # Python 3.9, no typing yet
    """Fork a child for every request until the socket closes; returns in a child, its request."""
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test run's to handle
    running: dict[int, int] = {}
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for gone in set(ready) - {wakeup_read, requests.fileno()}:
            poll.unregister(gone)  # who asked for this child was killed
            _end([child for child, status in running.items() if status == gone])
        if requests.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
            if not message:
                _end(list(running))
                sys.exit()
            child = os.fork()
            if child == 0:
                return _become(descriptors, [requests.fileno(), wakeup_read, *running.values()])
            *passed, status = descriptors
            running[child] = status
            poll.register(status, 0)  # only that the other end is closed, which is always told
            _tell(status, child)
            for each in passed:
                os.close(each)
        if wakeup_read in ready:
            # Last, for it closes descriptors, which the events above are told by.
            os.read(wakeup_read, 4096)
            _reap(running, poll)


def _become(descriptors: list[int], theirs: list[int]) -> dict:  # type: ignore[type-arg] # 3.9
    """Lead a session, take the given output, let go of the server's; returns the request."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    document, output, errors, _ = descriptors
    os.lseek(document, 0, os.SEEK_SET)
    with os.fdopen(document, "rb", closefd=False) as file:
        request: dict = json.load(file)  # type: ignore[type-arg] # 3.9
    os.dup2(output, 1)
    os.dup2(errors, 2)
    # Others may be MindSpore's own.
    for each in (*descriptors, *theirs):
        os.close(each)
    return request


def _reap(running: dict[int, int], poll: select.poll) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        pipe = running.pop(child, None)
        if pipe is not None:
            _tell(pipe, status)
            with contextlib.suppress(KeyError):
                poll.unregister(pipe)
            os.close(pipe)


def _end(children: list[int]) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, f"{number}\n".encode())


if __name__ == "__main__":
    main()
