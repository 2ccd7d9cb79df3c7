"""Runs of pytest for tests of the plugin, forked from a process that has imported everything.

Half of a short run goes into starting Python and importing pytest, LLVM and the suite. One process
per test session does that once. Each xdist worker gets a server forked from it, and each run is a
child of that server, with its own directory, environment, standard streams and pytest, as
``python -m pytest`` would have them. Run as a program, this module is the process with the imports.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forking import ask, serve, take_over


class WarmPytest:
    """A client whose server is forked at the first run and ends with :meth:`close`.

    ``place`` is the socket of a :class:`forking.Warm` process of this module.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], directory: Path, output: Path, errors: Path, seconds: float
    ) -> int:
        """Run ``pytest`` with the environment of this process. Returns its exit status.

        Raises:
            TimeoutError: if the run takes more than ``seconds``. The run is killed then.
        """
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.connect(str(self._place))
        # As with pytester, a test can import what it writes into its directory.
        path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))
        request = {
            "arguments": list(arguments),
            "directory": str(directory),
            "environment": {**os.environ, "PYTHONPATH": path},
            "output": str(output),
            "errors": str(errors),
        }
        with ask(self._socket, request) as answer:
            answer.settimeout(seconds)
            status = answer.recv(16)
        return os.waitstatus_to_exitcode(int(status))

    def close(self) -> None:
        """End the server and its run."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _import_everything() -> None:
    """Import pytest, its plugins and the suite, by collecting the suite."""
    # Hypothesis stores constants of our modules in the same place as the tests' own runs.
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(Path(__file__).parents[1] / ".hypothesis")
    import nursery

    from pytest_ascendcache.qualification import defective
    from pytest_ascendcache.reference import forkserver

    assert defective
    forkserver.preload()
    nursery.SERVERS.append(nursery.Nursery())
    gc.enable()
    import pytest

    with (
        tempfile.TemporaryDirectory() as empty,
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.chdir(empty) if sys.version_info >= (3, 11) else contextlib.nullcontext(),
    ):
        fixed = ["-q", "-s", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={empty}"]
        suite = ["--ascend-toolchain=reference", "--ascend-cache"]
        suite += ["--pyargs", "pytest_ascendcache.conformance"]
        code = pytest.main([*fixed, "--collect-only", *suite])
    if code != 0:
        raise SystemExit(f"the suite cannot be collected:\n{output.getvalue()}")
    from _pytest.assertion.rewrite import AssertionRewritingHook

    from pytest_ascendcache.qualification.runs import import_what_runs_import

    import_what_runs_import()
    _let_hypothesis_read_it()

    # The run above rewrote the imported modules; each fork would warn that it had not.
    AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()


def _let_hypothesis_read_it() -> None:
    """Have Hypothesis search the imported modules for constants, so that no run does it again.

    Hypothesis does so at the end of each collection, and keeps what it finds in its directory.
    """
    with contextlib.suppress(ImportError):  # older releases have none
        from hypothesis.internal.conjecture.providers import _get_local_constants

        _get_local_constants()


def _be_pytest(request: dict[str, Any]) -> int:
    """Do what ``python -m pytest`` does, in the directory and environment of a request."""
    take_over(request)
    for stream, name in ((1, "output"), (2, "errors")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
        os.close(file)
    import pytest

    sys.argv = [str(Path(pytest.__file__).with_name("__main__.py")), *request["arguments"]]
    sys.path.insert(0, request["directory"])
    # xdist gives its workers the sys.path from the time of its import.
    from xdist.plugin import _sys_path

    _sys_path.insert(0, request["directory"])
    from nursery import forked

    with forked():
        return int(pytest.main(request["arguments"]))


if __name__ == "__main__":
    sys.exit(serve(_import_everything, _be_pytest))
