"""Runs the suite many times in little time, in forks of one process that has imported everything.

A run of a few checks spends half of its time on starting Python, pytest, LLVM and the suite's
modules. Here this happens once: runs are children of this process, and one fork server, which knows
every defect, starts their compilers. A run does nothing else than usual: it is pytest with its own
options and its own positive control, and its compilers are processes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import io
import json
import multiprocessing
import os
import pkgutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES, module_of
from pytest_ascendcache.conformance.kit import generated
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.language import texts
from pytest_ascendcache.nodes import Unavailable, enter
from pytest_ascendcache.observation import harm
from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, Running
from pytest_ascendcache.qualification import defective
from pytest_ascendcache.qualification.reach import CHECK, DIRECTORY, REACHED
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import Toolchain

_ASKED_FOR = ("--ascend-nodes=2", "--ascend-stress=1steps")
"""Options without which some checks are not collected."""
_UNUSED = (
    *("doctest", "faulthandler", "junitxml", "legacypath", "pastebin", "recwarn"),
    *("setuponly", "setupplan", "stepwise", "subtests", "unittest"),
)
_GARBAGE = 100_000
"""Allocations between two garbage collections; most runs end before the first."""
_DEFECTIVE = (sys.executable, "-m", defective.__name__)


Asked = Callable[[Path], list[str]]
"""A run to do: a function that gets an empty directory and returns the arguments of pytest."""


def import_what_runs_import() -> None:
    """Import all modules that runs import lazily, so that forked children need not.

    Modules that cannot be imported on this machine are left to the run that needs them.
    """
    import pytest_ascendcache

    for module in pkgutil.walk_packages(pytest_ascendcache.__path__, "pytest_ascendcache."):
        # Collecting imports the suite; programs are never imported.
        if not module.name.startswith(PACKAGE) and not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError, OSError):  # for example, a missing system library
                importlib.import_module(module.name)
    for name in ("deepdiff", "numpy"):
        importlib.import_module(name)
    # A process reads these once: rules, texts, and the modules' files, for tracebacks.
    load_rules()
    texts()
    inspect.getmodule(import_what_runs_import.__code__)
    _read_what_is_installed()


def _read_what_is_installed() -> None:
    """Read the metadata of all installed distributions once; pytest reads it at each start, to find
    its plugins."""
    found = [*metadata.distributions()]
    discover = metadata.Distribution.discover
    for each in found:
        kept = {"files": each.files, "entry_points": each.entry_points, "metadata": each.metadata}
        each.__class__ = type("Read", (type(each),), kept)
    metadata.distributions = lambda **asked: discover(**asked) if asked else found


@dataclass(frozen=True)
class Named:
    """A run of named checks. If one of them does not exist, the run has no verdicts.

    With ``types`` it generates only operators of these types. Without ``harm`` it does not look for
    the harm of broken promises.
    """

    arguments: tuple[str, ...]
    types: tuple[str, ...] = ()
    harm: bool = True

    def __call__(self, _: Path) -> list[str]:
        return [*self.arguments]


@dataclass(frozen=True)
class SuiteRun:
    """A finished run of the suite: its JSON report."""

    report: Mapping[str, Any]


class SuiteRuns:
    """Runs the suite in forked children, ``jobs`` at once. Close it at the end."""

    def __init__(self, jobs: int) -> None:
        self._jobs = max(1, jobs)
        with contextlib.suppress(Unavailable):  # checks that need mounts then do not apply
            enter()  # before the server starts, since it must see the mounts of runs
        self._server = ForkLauncher((*_DEFECTIVE, defective.ANY, "forkserver"), {})
        self._server.warm()
        # Collecting imports the suite and shows which module has the checks of which rule.
        index = _Index()
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            tempfile.TemporaryDirectory(prefix="ascendcache-qualify-") as empty,
        ):
            reference = ("--ascend-cache", "--ascend-toolchain=reference", *_ASKED_FOR, PACKAGE)
            collect = [*_arguments(Path(empty), *reference), "--collect-only", "-s"]
            pytest.main(collect, plugins=[index])
        if not index.files:
            raise SystemExit(f"the suite cannot be collected:\n{output.getvalue()}")
        self._files = index.files
        self.checks: Mapping[str, str] = index.checks
        """All checks, named below the suite, and the rules they judge."""
        import_what_runs_import()
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """End the server of compilers."""
        self._server.close()

    def files(self, rules: Sequence[str]) -> list[str]:
        """The modules of the suite with checks of these rules; the whole suite without rules."""
        names = {name for rule in rules for name in self._files.get(rule, ())}
        return [f"{PACKAGE}.{name}" for name in sorted(names)] or [PACKAGE]

    def modules(self, rooms: Sequence[str]) -> list[str]:
        """The modules of the suite in these folders."""
        names = {name for each in self._files.values() for name in each}
        found = sorted(name for name in names if name.partition(".")[0] in rooms)
        return [f"{PACKAGE}.{name}" for name in found]

    def __call__(self, runs: Iterable[Asked], *plugins: object) -> Iterator[SuiteRun]:
        """Do runs with these additional plugins, and yield their results in the same order.

        The next run is taken from ``runs`` only when it starts, with the plugins as they are then.
        Raises ``SystemExit`` for a run that failed to start, with its output.
        """
        running: deque[_Run] = deque()
        for asked in runs:
            # Count and wait with the same list: a run may end at any moment, and waiting for an
            # empty list would never end.
            while len(alive := [run for run in running if run.process.is_alive()]) >= self._jobs:
                wait([run.process.sentinel for run in alive])
            while running and not running[0].process.is_alive():
                yield running.popleft().ended()
            running.append(_Run(asked, self._server, plugins))
        while running:
            yield running.popleft().ended()


class _Run:
    """One child that runs pytest."""

    def __init__(self, asked: Asked, server: ForkLauncher, plugins: Sequence[object]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ascendcache-qualify-")
        path = Path(self._directory.name)
        self._asked = asked
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=_run, args=(path, asked, server, plugins))
        self.process.start()

    def ended(self) -> SuiteRun:
        """Wait for the end and read the report."""
        self.process.join()
        with self._directory as name:
            report = Path(name) / "report.json"
            lacking = self.process.exitcode == pytest.ExitCode.USAGE_ERROR
            if lacking and isinstance(self._asked, Named):
                return SuiteRun({"checks": [], "rules": []})
            if self.process.exitcode not in (0, 1, 2) or not report.exists():
                output = (Path(name) / "output").read_text(errors="replace")
                raise SystemExit(f"the suite did not run:\n{output}")
            return SuiteRun(json.loads(report.read_text(encoding="utf-8")))


def _run(directory: Path, asked: Asked, server: ForkLauncher, plugins: Sequence[object]) -> None:
    """The child: run pytest in this directory."""
    os.chdir(directory)
    output = os.open("output", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    scene = directory / "scene"
    scene.mkdir()
    given = _arguments(directory, f"--ascend-report={directory / 'report.json'}", *asked(scene))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    gc.set_threshold(_GARBAGE)
    if isinstance(asked, Named):
        generated.narrow(asked.types)
        if not asked.harm:
            harm.leave_out()
    sys.exit(pytest.main(given, plugins=[_SharedServer(server), *plugins]))


def _arguments(directory: Path, *arguments: str) -> list[str]:
    return [
        *("-q", "-p", "no:cacheprovider", "-c", os.devnull),
        # No other plugins (see _run): they could reorder checks, and finding them takes time.
        *("-p", "xdist", "-p", "ascendcache"),
        # No plugins of pytest that no check uses.
        *(word for name in _UNUSED for word in ("-p", f"no:{name}")),
        # Nobody reads tracebacks here, and rendering them takes longer than many a check.
        *("--tb=line", "--ascend-select=whole"),
        *(f"--rootdir={directory}", f"--basetemp={directory / 'tmp'}", "--pyargs"),
        *arguments,
    ]


class _Index:
    """Notes which module has the checks of each rule."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {}
        self.checks: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            marker = item.get_closest_marker("ascend_rule")
            if marker is not None:
                self.checks[item.nodeid.removeprefix(SUITE_NODES)] = marker.args[0]
                self.files.setdefault(marker.args[0], set()).add(module_of(item.nodeid))


class _SharedServer:
    """Has the shared server start a run's compilers."""

    def __init__(self, server: ForkLauncher) -> None:
        self._server = server

    def pytest_ascendcache_toolchain(self, settings: Any) -> Toolchain | None:
        name = settings.defect
        if name is None:
            return None
        cann = [each.name for each in settings.editions if each.product == CANN]
        edition = cann[0] if cann else DEFAULT_NAMES[CANN]
        toolchain = reference_toolchain(settings.start, settings.timeout, name, edition=edition)
        toolchain.launcher = _OneOfMany(self._server, name)
        return toolchain


@dataclass(frozen=True)
class _OneOfMany:
    """Starts compilers with one defect from the shared server."""

    server: ForkLauncher
    name: str

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return (*_DEFECTIVE, self.name, program, *arguments)

    def start(self, command: Command) -> Running:
        environment = command.environment
        if self.name == REACHED.name:
            # The environments of ranks and packages do not inherit these variables.
            notes = {name: os.environ.get(name, "") for name in (CHECK, DIRECTORY)}
            environment = {**environment, **notes}
        if command.unprivileged:  # a fork keeps the server's rights
            fresh = {command.program: self.argv(command.program, ())}
            return ProcessLauncher(fresh).start(command)
        program = f"{self.name}/{command.program}"
        return self.server.start(replace(command, program=program, environment=environment))

    def close(self) -> None:
        """Do nothing: other runs use the server, too."""
