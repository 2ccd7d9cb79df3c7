"""Fixtures for the tests of this project: warm processes that fork runs of pytest and of atc."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from forking import Warm

from tests.warm_pytest import WarmPytest

if TYPE_CHECKING:
    from pytest_ascendcache.observation import CacheUnderTest
    from pytest_ascendcache.toolchains import Toolchain

pytest_plugins = ["pytester"]

_PATIENCE = 600.0
"""The seconds that a run of pytest inside a test may take on a busy machine."""

_IMPORTER = pytest.StashKey[Warm]()
"""The process that forks a server for each xdist worker of a run."""


def _importer() -> Warm:
    return Warm(Path(__file__).with_name("warm_pytest.py"))


def pytest_configure() -> None:
    """Put temporary files elsewhere if TMPDIR contains a blank, because ATC refuses such paths."""
    if re.search(r"[^A-Za-z0-9._/-]", tempfile.gettempdir()):
        os.environ["TMPDIR"] = tempfile.tempdir = "/var/tmp"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if _IMPORTER not in node.config.stash:
        node.config.stash[_IMPORTER] = _importer()
    node.workerinput["importer"] = str(node.config.stash[_IMPORTER].place)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _IMPORTER in config.stash:
        config.stash[_IMPORTER].close()


@pytest.fixture(scope="session")
def warm_pytest(pytestconfig: pytest.Config) -> Iterator[WarmPytest]:
    """A client of a process that has imported everything and forks runs of pytest."""
    with contextlib.ExitStack() as closing:
        if hasattr(pytestconfig, "workerinput"):
            place = Path(pytestconfig.workerinput["importer"])
        else:
            place = closing.enter_context(contextlib.closing(_importer())).place
        yield closing.enter_context(contextlib.closing(WarmPytest(place)))


@pytest.fixture(scope="session")
def standin_atc() -> Iterator[Path]:
    """The socket of a warm process that runs the stand-in ``atc`` (``tests/standins``)."""
    from warm_atc import standin_server

    with standin_server() as place:
        yield place


@pytest.fixture
def pytester(pytester: pytest.Pytester, warm_pytest: WarmPytest) -> pytest.Pytester:
    """pytest's own fixture, with ``runpytest_subprocess`` forked from a warm process.

    ``pytester.cold_run`` starts a new interpreter, as ``runpytest_subprocess`` does elsewhere.
    """
    cold_run = pytester.run
    python = (sys.executable, "-mpytest")

    def run(*arguments: str | os.PathLike[str], timeout: float | None = None, **more: Any) -> Any:
        words = tuple(map(str, arguments))
        if words[:2] != python or more:
            return cold_run(*arguments, timeout=timeout, **more)
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


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty directory on a machine without a toolkit. Each test passes its own options."""
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


@pytest.fixture(scope="module")
def reference() -> Iterator[Toolchain]:
    """The reference toolchain, forked."""
    from pytest_ascendcache.qualification.toolchain import reference_toolchain

    with contextlib.closing(reference_toolchain("fork")) as toolchain:
        yield toolchain


@pytest.fixture
def cache(reference: Toolchain, tmp_path: Path) -> CacheUnderTest:
    """An empty cache of the reference."""
    from pytest_ascendcache.observation import CacheUnderTest, PositiveControl

    return CacheUnderTest(reference, tmp_path, PositiveControl())
