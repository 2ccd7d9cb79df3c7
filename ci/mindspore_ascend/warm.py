"""A command that runs scripts like a release's Python, by fork from one that imported MindSpore.

It takes a tenth of the time. The command sends its output's descriptors over a socket.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.processes.launch import request_file
from pytest_ascendcache.toolchains.mindspore import forkserver

_CLIENT = """\
#!{python} -SI
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
request = {{"program": "python", "argv": sys.argv[1:], "cwd": os.getcwd(), "umask": None,
           "environ": dict(os.environ)}}
socket.send_fds(server, [b"?"], [1, 2])
server.sendall(json.dumps(request).encode())
server.shutdown(socket.SHUT_WR)
code = int(server.recv(16) or b"125")
sys.exit(code if code >= 0 else 128 - code)
"""


_LEAVING = """\
import os, runpy, sys, traceback
sys.argv = sys.argv[1:]
code = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as error:
    code = error.code if isinstance(error.code, int) else 1
except BaseException:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""


class WarmPython:
    """Serves ``command`` while it is entered. With ``leaves`` scripts end without clearing up."""

    def __init__(self, python: Path, leaves: bool = False) -> None:
        dropped = ("PYTHON", "MS_", "LD_LIBRARY")
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(dropped)
        }
        environment[forkserver.GIVEN] = ",".join(environment)
        server = (str(python), str(Path(forkserver.__file__)))
        self._forks = ForkLauncher(server, {"python": (str(python),)}, environment)
        self._directory = tempfile.TemporaryDirectory(prefix="ascendcache-warm-")
        self.command = Path(self._directory.name, "python")
        place = str(self.command.with_name("socket"))
        self.command.write_text(_CLIENT.format(python=sys.executable, place=place))
        self.command.chmod(0o755)
        self._leaving = None
        if leaves:
            self._leaving = self.command.with_name("leaving.py")
            self._leaving.write_text(_LEAVING)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(place)
        self._listening.listen()
        self._sends = threading.Lock()

    def __enter__(self) -> WarmPython:
        self._forks.warm()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        self._forks.close()
        self._directory.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            _, outputs, _, _ = socket.recv_fds(client, 1, 2)
            text = b"".join(iter(lambda: client.recv(65536), b""))
            status, reports = os.pipe()
            request = json.loads(text)
            if self._leaving is not None:
                request["argv"] = [str(self._leaving), *request["argv"]]
            with request_file(request) as document, self._sends:
                descriptors = [document, *outputs, reports]
                socket.send_fds(self._forks.warm().requests, [b"?"], descriptors)
            for each in (*outputs, reports):
                os.close(each)
            with os.fdopen(status) as file:
                lines = file.read().split()
            code = os.waitstatus_to_exitcode(int(lines[1])) if len(lines) > 1 else 125
            client.sendall(str(code).encode())
