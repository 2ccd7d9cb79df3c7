"""Tests of the project itself."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.warm_pytest import Importer, WarmPytest

pytest_plugins = ["pytester"]

_PATIENCE = 600.0
"""Seconds a run of pytest inside a test may take on a busy machine."""


_IMPORTER = pytest.StashKey[Importer]()
"""That of the workers of a run with xdist."""


def pytest_configure() -> None:
    """ATC takes no blank in paths: where TMPDIR has one, the tests' directories go elsewhere."""
    if re.search(r"[^A-Za-z0-9._/-]", tempfile.gettempdir()):
        os.environ["TMPDIR"] = tempfile.tempdir = "/var/tmp"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if _IMPORTER not in node.config.stash:
        node.config.stash[_IMPORTER] = Importer()
    node.workerinput["importer"] = str(node.config.stash[_IMPORTER].place)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _IMPORTER in config.stash:
        config.stash[_IMPORTER].close()


@pytest.fixture(scope="session")
def warm_pytest(pytestconfig: pytest.Config) -> Iterator[WarmPytest]:
    """A process that has imported everything, to fork runs of pytest from."""
    with contextlib.ExitStack() as closing:
        if hasattr(pytestconfig, "workerinput"):
            place = Path(pytestconfig.workerinput["importer"])
        else:
            place = closing.enter_context(contextlib.closing(Importer())).place
        yield closing.enter_context(contextlib.closing(WarmPytest(place)))


@pytest.fixture(scope="session")
def standin_atc() -> Iterator[Path]:
    """The socket of a warm server that runs the stand-in ``atc`` (``tests/standins``)."""
    from standins.warm import standin_server

    with standin_server() as place:
        yield place


@pytest.fixture
def pytester(pytester: pytest.Pytester, warm_pytest: WarmPytest) -> pytest.Pytester:
    """pytest's own fixture, with ``runpytest_subprocess`` forked from a warm process.

    ``pytester.cold_run`` starts a new interpreter, as ``runpytest_subprocess`` does elsewhere.
    """
    cold_run = pytester.run
    python = (sys.executable, "-mpytest")

    def run(*arguments: str | os.PathLike[str], timeout: float | None = None, **given: Any) -> Any:
        words = tuple(map(str, arguments))
        if words[:2] != python or given:
            return cold_run(*arguments, timeout=timeout, **given)
        output, errors = pytester.path / "stdout", pytester.path / "stderr"
        began = time.perf_counter()
        code = warm_pytest.run(
            words[2:], Path.cwd(), output, errors, _PATIENCE if timeout is None else timeout
        )
        lines = [each.read_text("utf-8", "replace").splitlines() for each in (output, errors)]
        print(*lines[0], sep="\n")
        print(*lines[1], sep="\n", file=sys.stderr)
        return pytest.RunResult(code, *lines, time.perf_counter() - began)

    pytester.run = run  # type: ignore[method-assign]
    return pytester
