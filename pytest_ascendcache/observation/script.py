"""A user's script under test: runs that are watched from outside."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Step
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.observation.gated_run import ByHand
from pytest_ascendcache.observation.meeting_place import meeting_place
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.observation.watched_compiler import Provocation, WatchedCompiler
from pytest_ascendcache.toolchains import ToolchainError
from pytest_ascendcache.toolchains.torchair import Card, ScriptRun, TorchairToolchain

_PATIENCE = 120.0
"""Seconds an uninstall may take."""


@dataclass(frozen=True)
class WatchedRun:
    """One run. ``compiler`` has the calls of op_compiler and the packages; ``left`` are the
    packages that the run left installed."""

    ended: ScriptRun
    compiler: WatchedCompiler
    left: frozenset[str]

    @property
    def work(self) -> Path:
        """The working directory."""
        return self.ended.work


@dataclass(frozen=True)
class UndisturbedRuns:
    """Runs without faults, by number of cards. Checks that only look at what a run left in
    ``directory`` share one."""

    directory: Path
    by_cards: dict[int, WatchedRun] = field(default_factory=dict)


def private_packages(work: Path) -> frozenset[str]:
    """Packages below a working directory: with CANN 9.1 each process installs for itself alone."""
    places = (each.parents[1] for each in work.rglob("static_kernel/ai_core"))
    return frozenset().union(*(InstalledKernels(place).packages for place in places))


class ScriptUnderTest:
    """Runs the script of a toolchain, each time in a new empty working directory."""

    def __init__(
        self,
        toolchain: TorchairToolchain,
        sandbox: Path,
        evidence: Evidence,
        undisturbed: UndisturbedRuns,
    ) -> None:
        self.toolchain = Gate.of(toolchain, evidence)
        self.sandbox = sandbox
        self.evidence = evidence
        self._undisturbed = undisturbed
        self._numbers: Iterator[int] = count()
        self._before: frozenset[str] | None = None

    @property
    def installed(self) -> InstalledKernels:
        """What is installed where the script installs. Raises ``NotDecidable`` if that is not
        known."""
        if self.toolchain.opp is None:
            raise NotDecidable("ASCEND_OPP_PATH is not set: it says where packages are installed")
        return InstalledKernels(self.toolchain.opp)

    def run(self, cards: int = 1) -> WatchedRun:
        """A run without faults on this many cards, shared by all checks. Raises ``ToolchainError``
        if it fails or does not end. No verdict rests on it."""
        shared = self._undisturbed.by_cards
        if cards not in shared:
            private, self.sandbox = self.sandbox, self._undisturbed.directory
            try:
                shared[cards] = self.attempt(cards)
            finally:
                self.sandbox = private
        run = shared[cards]
        if not run.ended.succeeded:
            last = [line for each in run.ended.outputs for line in each.strip().splitlines()[-1:]]
            raise ToolchainError(f"the script {run.ended.ending}: {'; '.join(last)[:400]}")
        return run

    def attempt(
        self, cards: int | Sequence[Card] = 1, wrong: Provocation | None = None, **options: Any
    ) -> WatchedRun:
        """Like :meth:`run`, but a failure is a valid result. Takes the options of :meth:`together`.
        Raises ``ToolchainError`` if a card does not end."""
        (run,) = self.together([cards], wrong, **options)
        return run

    def together(
        self,
        jobs: Sequence[int | Sequence[Card]],
        wrong: Provocation | None = None,
        may_hang: bool = False,
        work: Path | None = None,
        keep: bool = False,
        patience: float | None = None,
        enough: Callable[[Path], bool] | None = None,
    ) -> list[WatchedRun]:
        """Several jobs at the same time, each in a directory of its own, with one op_compiler that
        counts the calls of all of them.

        ``wrong`` are faults to inject, and ``may_hang`` makes not ending a valid result. ``work``
        is a used working directory. With ``keep`` the packages that a run leaves stay installed,
        for the next run to find; ``left`` lists everything that was not installed before the check.
        A run may take ``patience`` seconds; it is killed as soon as ``enough`` returns True for its
        working directory. Raises ``ToolchainError`` if a card does not end.
        """
        compiler = self._compiler(wrong or Provocation())
        if self._before is None:
            self._before = self.installed.packages
        with ExitStack() as held:
            started = []
            for cards in jobs:
                number = cards if isinstance(cards, int) else len(cards)
                place = held.enter_context(meeting_place(number))
                directory = work or self.directory("work")
                job = self.toolchain.run_script(directory, place.port, cards, compiler.directory)
                started.append(held.enter_context(job))
            ended = [each.wait(patience, enough) for each in started]
        left = self.installed.packages - self._before
        if not keep:
            self._remove(left)
        for run in ended:
            left |= private_packages(run.work)
        for run in ended:
            self._note(run)
            if None in run.returncodes and not may_hang:
                raise ToolchainError("the script did not end and was killed")
        return [WatchedRun(run, compiler, left) for run in ended]

    def directory(self, name: str) -> Path:
        """A new empty directory."""
        while (path := self.sandbox / f"{name}{next(self._numbers)}").exists():
            pass
        path.mkdir()
        return path

    @contextmanager
    def strangers(self, number: int) -> Iterator[list[Path]]:
        """Install packages as a person would by hand, while the block lasts. Yields their
        directories. Running the ``uninstall.sh`` of one removes it."""
        script = '#!/bin/sh\nrm -r "$(dirname "$0")"\n'
        home = self.installed.ai_core
        new = [each for each in (home, home.parent) if not each.exists()]
        places = [home / f"static_kernel_2601010000{n:02}_{n}" for n in range(number)]
        try:
            for each in places:
                each.mkdir(parents=True)
                (each / "uninstall.sh").write_text(script, encoding="utf-8")
                (each / "uninstall.sh").chmod(0o755)
            yield places
        finally:
            for each in places:
                shutil.rmtree(each, ignore_errors=True)
            for made in new:
                with suppress(OSError):  # a directory that is not empty is in use by now
                    made.rmdir()

    def _compiler(self, wrong: Provocation) -> WatchedCompiler:
        if self.toolchain.compiler is None:
            raise NotDecidable("there is no op_compiler on PATH that the script could call")
        return WatchedCompiler.make(self.directory("bin"), self.toolchain.compiler, wrong)

    def _remove(self, packages: frozenset[str]) -> None:
        """Uninstall packages, so that those of one run are not taken for another's."""
        for name in packages:
            script = self.installed.ai_core / name / "uninstall.sh"
            for each in (script, script.with_name("uninstall.real.sh")):
                if each.exists():
                    self.toolchain.by_hand(ByHand(str(each), self.sandbox), partial(_run, each))

    def _note(self, run: ScriptRun) -> None:
        for command, code, output in zip(run.commands, run.returncodes, run.outputs, strict=True):
            shown = shown_output(output, code == 0)
            self.evidence.steps.append(Step(command, f"ended with {code}", (), {}, shown))


def _run(script: Path) -> int:
    return subprocess.run([script], timeout=_PATIENCE, capture_output=True, check=False).returncode
