"""Starts scripts by fork from a Python that has imported MindSpore, in a tenth of the time.

This is a program of the wheel's Python (3.9 or newer) and imports nothing else. It speaks the
protocol of ``processes.forked``: each request arrives as four descriptors, namely a JSON file with
the request, standard output, standard error, and a pipe on which the server reports the child's
process id and then its wait status. Only the import is shared: before the fork no context is set
and no cache is read, and the child ends like any Python. Of what MindSpore reads while it is
imported, only the entry script is replaced in the child (``_enter``). The logging configuration
stays the server's, so scripts that change it need a process of their own.
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
"""Names of the variables the server was started with, joined by commas. Any other variable was
added by a wrapper around its Python, and every child gets it too."""

ENTRY, ENTRY_MODULES = "entry_script_path", ("mindspore.graph.api", "mindspore.common.api")
"""Where MindSpore (2.8.0 to 2.10.0) stores the entry script. Releases that store it elsewhere are
not forked."""


def main() -> None:
    """Serve the socket whose descriptor is the last argument. Returns in children only."""
    ours = {GIVEN, "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", *os.environ[GIVEN].split(",")}
    from_wrapper = {name: value for name, value in os.environ.items() if name not in ours}
    before = dict(os.environ)
    importlib.import_module("mindspore")  # children need not import it again
    _quicken_builds()

    exported = {name: value for name, value in os.environ.items() if name not in before}
    # A garbage collection in a child would copy every page of the parent's objects.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[-1]))
    request = _serve(requests)
    os.environ.clear()
    os.environ.update({**exported, **request["environ"], **from_wrapper})
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
"""Replaces the Python that MindSpore starts for every build of kernels. It runs the same program,
with the same parent, but without importing all of MindSpore, which that program does not use."""

_PATIENCE = 60.0


def _quicken_builds() -> None:
    """Make builds of kernels start at once. If that fails, they start as usual."""
    try:
        server = importlib.util.find_spec("mindspore._extends.remote.kernel_build_server_akg")
        executor = importlib.import_module("mindspore.common.api")._cell_graph_executor
        written = os.memfd_create("builder")  # leaves no file behind
        os.write(written, BUILDER.format(python=sys.executable).encode())
        # A file that is open for writing cannot be executed.
        memory = os.open(f"/proc/self/fd/{written}", os.O_RDONLY | os.O_CLOEXEC)
        os.close(written)
        builder = f"/proc/{os.getpid()}/fd/{memory}"
        # It has nothing to read, so it ends.
        command = [builder, str(server and server.origin), "0", "1"]
        devnull = subprocess.DEVNULL
        subprocess.run(command, stdin=devnull, stdout=devnull, check=True, timeout=_PATIENCE)
        executor._graph_executor.set_py_exe_path(builder)
    except (ImportError, AttributeError, OSError, subprocess.SubprocessError):
        return


def _enter(script: str) -> None:
    """Make a script the entry script of this Python and of MindSpore, whose cache key contains
    it."""
    sys.path[0] = str(Path(script).parent)
    for name in ENTRY_MODULES:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, ENTRY):
            entry = Path(script).resolve()
            setattr(module, ENTRY, str(entry))
            module.sys_path[:] = [each for each in sys.path if each != str(entry.parent)]


def _serve(requests: socket.socket) -> dict:  # type: ignore[type-arg] # Python 3.9, no typing yet
    """Fork a child for every request until the socket closes. Returns in a child, with its
    request."""
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the test run alone
    running: dict[int, int] = {}
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for gone in set(ready) - {wakeup_read, requests.fileno()}:
            poll.unregister(gone)  # the process that asked for this child was killed
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
            poll.register(status, 0)  # poll always reports when the other end closes
            _tell(status, child)
            for each in passed:
                os.close(each)
        if wakeup_read in ready:
            # Last, because it closes descriptors that identify the events above.
            os.read(wakeup_read, 4096)
            _reap(running, poll)


def _become(descriptors: list[int], theirs: list[int]) -> dict:  # type: ignore[type-arg] # 3.9
    """Start a session, redirect output, close the server's descriptors. Returns the request."""
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
    # Other open descriptors may belong to MindSpore.
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
