"""Many runs of the suite in little time: forked from one process that has imported everything.

Half of a run of a few checks is starting Python, pytest, LLVM and the suite's modules. Here that
is done once: runs are children of this process, and all of them ask one fork server, which knows
every defect, for their compilers. What a run does is the same: pytest, with its own options, its
own positive control and compilers that are processes of their own.
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
from pytest_ascendcache.processes.launch import Command, Running
from pytest_ascendcache.qualification import defective
from pytest_ascendcache.qualification.reach import CHECK, DIRECTORY, REACHED
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import Toolchain

_ASKED_FOR = ("--ascend-nodes=2", "--ascend-stress-steps=1")
"""What has those checks collected that need asking for."""
_UNUSED = (
    *("doctest", "faulthandler", "junitxml", "legacypath", "pastebin", "recwarn"),
    *("setuponly", "setupplan", "stepwise", "subtests", "unittest"),
)
_GARBAGE = 100_000
"""Objects that a run makes between two looks for garbage: most runs end before."""
_DEFECTIVE = (sys.executable, "-m", defective.__name__)


Asked = Callable[[Path], list[str]]
"""A run to be done: what makes, in an empty directory of the run's own, pytest's arguments."""


def import_what_runs_import() -> None:
    """Import what a run imports when it comes to it, so that children forked from here need not.

    What cannot be imported on this machine is left to the run that needs it.
    """
    import pytest_ascendcache

    for module in pkgutil.walk_packages(pytest_ascendcache.__path__, "pytest_ascendcache."):
        # Suite and programs: the first is imported by collecting it, the others are run.
        if not module.name.startswith(PACKAGE) and not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError, OSError):  # a library of the system, too
                importlib.import_module(module.name)
    for name in ("deepdiff", "numpy"):
        importlib.import_module(name)
    # What is read once a process: rules, texts, and for tracebacks where every module comes from.
    load_rules()
    texts()
    inspect.getmodule(import_what_runs_import.__code__)
    _read_what_is_installed()


def _read_what_is_installed() -> None:
    """Read once what distributions there are and what files they have: pytest asks for all of it at
    each start, to find its plugins."""
    found = [*metadata.distributions()]
    discover = metadata.Distribution.discover
    for each in found:
        kept = {"files": each.files, "entry_points": each.entry_points, "metadata": each.metadata}
        each.__class__ = type("Read", (type(each),), kept)
    metadata.distributions = lambda **asked: discover(**asked) if asked else found


@dataclass(frozen=True)
class Named:
    """A run of checks by their names; where one of them does not exist, it has no verdicts.

    Of generated operators it has those of these ``types`` only, where it names some. Without
    ``harm`` none is looked for where a promise is broken, whatever harm there is.
    """

    arguments: tuple[str, ...]
    types: tuple[str, ...] = ()
    harm: bool = True

    def __call__(self, _: Path) -> list[str]:
        """See ``Asked``."""
        return [*self.arguments]


@dataclass(frozen=True)
class Ended:
    """A run of the suite: its JSON report, and what it printed."""

    report: Mapping[str, Any]
    output: str


class SuiteRuns:
    """Runs the suite in forked children, ``jobs`` at once. To be closed at the end."""

    def __init__(self, jobs: int) -> None:
        self._jobs = max(1, jobs)
        with contextlib.suppress(Unavailable):  # the checks that need mounts say so
            enter()  # before the server is started: it has to see what runs mount
        self._server = ForkLauncher((*_DEFECTIVE, defective.ANY, "forkserver"), {})
        self._server.warm()
        # Imports the suite, and says which file has the checks of which rule.
        index = _Index()
        with (
            contextlib.redirect_stdout(io.StringIO()) as said,
            tempfile.TemporaryDirectory(prefix="ascendcache-qualify-") as empty,
        ):
            reference = ("--ascend-cache", "--ascend-toolchain=reference", *_ASKED_FOR, PACKAGE)
            collect = [*_arguments(Path(empty), *reference), "--collect-only", "-s"]
            pytest.main(collect, plugins=[index])
        if not index.files:
            raise SystemExit(f"the suite cannot be collected:\n{said.getvalue()}")
        self._files = index.files
        self.checks: Mapping[str, str] = index.checks
        """The checks there are, named below the suite, and the rules they judge."""
        import_what_runs_import()
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """End the compilers' server."""
        self._server.close()

    def files(self, rules: Sequence[str]) -> list[str]:
        """The modules of the suite that have the checks of these rules; all where none is given."""
        names = {name for rule in rules for name in self._files.get(rule, ())}
        return [f"{PACKAGE}.{name}" for name in sorted(names)] or [PACKAGE]

    def modules(self, rooms: Sequence[str]) -> list[str]:
        """The modules of the suite in these folders."""
        names = {name for each in self._files.values() for name in each}
        found = sorted(name for name in names if name.partition(".")[0] in rooms)
        return [f"{PACKAGE}.{name}" for name in found]

    def __call__(self, runs: Iterable[Asked], *plugins: object) -> Iterator[Ended]:
        """Do runs, with these plugins beside pytest's own; their results, in the same order.

        A run sees the plugins, and ``runs`` is asked for the next one, when it begins.

        Raises:
            SystemExit: for a run that did not come about, with what it printed.
        """
        running: deque[_Run] = deque()
        for asked in runs:
            # One list for both questions: a run may end at any moment, and waiting for none would
            # take for ever.
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

    def ended(self) -> Ended:
        """Wait for the end, and read the report."""
        self.process.join()
        with self._directory as name:
            output = (Path(name) / "output").read_text(errors="replace")
            report = Path(name) / "report.json"
            lacking = self.process.exitcode == pytest.ExitCode.USAGE_ERROR
            if lacking and isinstance(self._asked, Named):
                return Ended({"checks": [], "rules": []}, output)
            if self.process.exitcode not in (0, 1, 2) or not report.exists():
                raise SystemExit(f"the suite did not run:\n{output}")
            return Ended(json.loads(report.read_text(encoding="utf-8")), output)


def _run(directory: Path, asked: Asked, server: ForkLauncher, plugins: Sequence[object]) -> None:
    """The child: pytest with the run's arguments in this directory."""
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
    fixed = ["-q", "-p", "no:cacheprovider", "-c", os.devnull]
    # No other plugins (see _run): what finds a defect first is told, and has to stay the first; and
    # to look for them takes time.
    fixed += ["-p", "xdist", "-p", "ascendcache"]
    # Nor those of pytest's own that no check uses.
    fixed += [word for name in _UNUSED for word in ("-p", f"no:{name}")]
    fixed += ["--tb=line"]  # nobody reads more, and sources take longer to show than many a check
    fixed += ["--ascend-suite=whole"]
    fixed += [f"--rootdir={directory}", f"--basetemp={directory / 'tmp'}", "--pyargs"]
    return [*fixed, *arguments]


class _Index:
    """Notes where the checks of each rule are."""

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
    """The plugin that has a run's compilers started by the shared server."""

    def __init__(self, server: ForkLauncher) -> None:
        self._server = server

    def pytest_ascendcache_toolchain(self, settings: Any) -> Toolchain | None:
        name = settings.defect or settings.profile
        if name is None:
            return None
        cann = [each.name for each in settings.editions if each.product == CANN]
        edition = cann[0] if cann else DEFAULT_NAMES[CANN]
        toolchain = reference_toolchain(settings.start, settings.timeout, name, edition=edition)
        toolchain.launcher = _OneOfMany(self._server, name)
        return toolchain


@dataclass(frozen=True)
class _OneOfMany:
    """The shared server's launcher for one defect."""

    server: ForkLauncher
    name: str

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        return (*_DEFECTIVE, self.name, program, *arguments)

    def start(self, command: Command) -> Running:
        environment = command.environment
        if self.name == REACHED.name:
            # A rank's and a package's environment begins with nothing of ours in it.
            notes = {name: os.environ.get(name, "") for name in (CHECK, DIRECTORY)}
            environment = {**environment, **notes}
        program = f"{self.name}/{command.program}"
        return self.server.start(replace(command, program=program, environment=environment))

    def close(self) -> None:
        """The server is not this run's to end."""
