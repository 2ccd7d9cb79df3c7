"""Processes that compile, install and use static kernels, in directories of their own."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from pytest_ascendcache.caches import InstalledKernels, Snapshot
from pytest_ascendcache.contract import DEFAULT_SOC
from pytest_ascendcache.observation.evidence import Evidence, Step
from pytest_ascendcache.observation.gate import Gated
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.processes.launch import end_all
from pytest_ascendcache.toolchains import (
    Program,
    StaticProcess,
    StaticRequest,
    StaticResult,
    Toolchain,
    ToolchainError,
)
from pytest_ascendcache.toolchains.op_compiler import NAME


@dataclass(frozen=True)
class Compiled:
    """The result of one run of op_compiler, and its new packages."""

    result: StaticResult
    packages: tuple[Path, ...]

    @property
    def output(self) -> str:
        """The end of what it printed."""
        return self.result.output


class ResultWitness(Protocol):
    """Who is told of every process that has ended."""

    def note(self, result: StaticResult) -> None: ...


class StaticProcesses(Gated):
    """Starts op_compiler, packages and clients, and waits for them."""

    witness: ResultWitness

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        shelf: Path,
        evidence: Evidence | None = None,
        turns: Path | None = None,
    ) -> None:
        super().__init__(toolchain, evidence)
        self.sandbox = sandbox
        self.opp = sandbox / "opp"
        self.build = sandbox / "build"
        self.work = sandbox / "work"
        self._shelf = shelf
        self._turns = turns or shelf / ".turns"
        self._numbers = count()
        for path in (self.opp, self.build, self.work):
            path.mkdir()

    def __repr__(self) -> str:
        return f"<static kernels in {self.sandbox}>"

    @contextmanager
    def alone_on_the_machine(self) -> Iterator[None]:
        """Keep other checks of this test run from installing packages. CANN's installers wait for
        any other installer on the machine, wherever it installs to, so checks on other workers
        would make each other fail."""
        if self.toolchain.name != NAME:
            yield
            return
        with turn(self._turns):
            yield

    @property
    def installed(self) -> InstalledKernels:
        """What is installed."""
        return InstalledKernels(self.opp)

    def directory(self, name: str) -> Path:
        """A new empty directory."""
        path = self.sandbox / f"{name}{next(self._numbers)}"
        path.mkdir()
        return path

    def dump(self, *operators: OperatorSpec) -> Path:
        """A directory of operator information, with one file for each operator."""
        folder = self.directory("dump")
        for number, operator in enumerate(operators):
            info = OperatorInfo.of(operator)
            write_opinfo(folder / info.file_name(number), info)
        return folder

    def compilation(
        self, folder: Path, output: Path, options: Sequence[str] = (), soc: str = DEFAULT_SOC
    ) -> StaticRequest:
        """A run of op_compiler on a directory of operator information."""
        arguments = ["-p", str(folder), "-v", soc, "-j", "2", "-o", str(output), *options]
        return StaticRequest(Program.OP_COMPILER, tuple(arguments), self.work)

    def compile(self, *operators: OperatorSpec, folder: Path | None = None) -> Compiled:
        """Compile operators, or the contents of ``folder``, into a new directory; a failure is a
        valid result."""
        output = self.directory("packages")
        folder = self.dump(*operators) if folder is None else folder
        result = self.attempt(self.compilation(folder, output))
        return Compiled(result, tuple(sorted(output.glob("*.run"))))

    def attempt(self, request: StaticRequest) -> StaticResult:
        """Run one process; a failure is a valid result. Raises ``ToolchainError`` if it does not
        end."""
        return self.attempts([request])[0]

    def attempts(
        self,
        requests: Sequence[StaticRequest],
        meanwhile: Callable[[list[StaticProcess]], None] | None = None,
    ) -> list[StaticResult]:
        """Like :meth:`attempt`, for several processes at the same time. ``meanwhile`` is called
        once they have started."""
        with self.started(*requests) as processes:
            if meanwhile is not None:
                meanwhile(processes)
            results = [process.wait() for process in processes]
        for result in results:
            self._note(result)
            if result.returncode is None:
                raise ToolchainError(result.failure)
        return results

    @contextmanager
    def started(self, *requests: StaticRequest) -> Iterator[list[StaticProcess]]:
        """Running processes. Those that nobody waits for are killed."""
        processes: list[StaticProcess] = []
        try:
            for request in requests:
                processes.append(self.toolchain.static(request))
            yield processes
        finally:
            end_all(processes)

    def _note(self, result: StaticResult) -> None:
        output = shown_output(result.output, result.succeeded)
        self.witness.note(result)
        self.evidence.steps.append(Step(result.command, result.ending, (), {}, output))


def sha256_of(value: object) -> str:
    """A file name for a value, derived from its text."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def state_of(directory: Path) -> dict[str, tuple[str, int, str]]:
    """What a directory holds, to compare with a later state: without times and without empty files,
    such as locks, of which no document says that there are none."""
    return {
        path: (state.kind, state.mode, state.sha256 or state.target)
        for path, state in Snapshot.take(directory).files.items()
        if state.kind != "file" or state.size
    }


def left_in(directory: Path) -> list[str]:
    """The files that a directory holds. Directories and empty files, such as locks, do not count:
    no document says that an installer leaves none."""
    files = Snapshot.take(directory).files.items()
    return sorted(path for path, state in files if state.kind != "directory" and state.size)


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """Hold the lock file ``lock``, so that one process at a time, on whichever worker, runs this
    block."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
