"""One stress run from its seed to its result: execute, check the history file, shrink it."""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation.harm import is_looked_for
from pytest_ascendcache.stress.aftermath import observed_facts
from pytest_ascendcache.stress.checker import (
    Checker,
    Undecided,
    Violation,
    violations,
    violations_of,
)
from pytest_ascendcache.stress.executor import Executor
from pytest_ascendcache.stress.ground import Ground, prepare
from pytest_ascendcache.stress.history import Header, Round, RoundRecord, StressHistory
from pytest_ascendcache.stress.history_file import (
    HistoryError,
    HistoryWriter,
    open_history,
    read_history,
)
from pytest_ascendcache.stress.narrative import tell
from pytest_ascendcache.stress.schedule import Schedule, population
from pytest_ascendcache.stress.shrink import Shrunk, shrink
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

_SHRINKING = (5.0, 60.0)
"""Limits, in seconds, of the time for shortening a failing history; within them, half of what was
asked for the run, or as long as it ran."""
_REPLAYS = 3
"""A replay counts as sound after this many executions without a violation: ranks race."""
_SHOWN = 5


@dataclass
class Tally:
    """What was done in a run."""

    steps: int = 0
    compiles: int = 0
    jobs: int = 0
    kernels: int = 0

    def counting(self, records: Iterable[RoundRecord]) -> Iterator[RoundRecord]:
        """The same rounds; each is counted when it is asked for."""
        for record in records:
            self.steps += record.round.steps
            self.compiles += len(record.deliveries)
            self.jobs += len(record.ended)
            self.kernels += sum(len(one.kernels) for one in record.deliveries if not one.killed)
            yield record


@dataclass(frozen=True)
class Result:
    """The result of a run, as the history in ``path`` proves it; it ran for ``seconds``.

    ``facts`` are what was wrong with it. Without ``serves_marked``, no unusable entry was looked
    for.
    """

    header: Header
    done: Tally
    path: Path
    seconds: float
    violations: tuple[Violation, ...]
    facts: tuple[Fact, ...] = ()
    shortest: Shrunk | None = None
    serves_marked: bool = True

    @property
    def summary(self) -> str:
        """One line for the report."""
        header, done = self.header, self.done
        return (
            f"stress: seed {header.seed}, {header.ranks} ranks x {len(header.operators)} operators"
            f", {done.steps} steps in {self.seconds:.1f} s "
            f"({done.steps / max(self.seconds, 1e-9):.0f} a second), {done.compiles} compiles, "
            f"{done.jobs} jobs, {done.kernels} kernels compared, {len(self.violations)} violations"
        )

    @property
    def remarks(self) -> list[str]:
        """The nodes it ran on, and what it did not look for."""
        lines = []
        if self.header.nodes > 1:
            lines.append(f"stress on {self.header.nodes} nodes, {self.header.profile}")
        if not self.serves_marked:
            lines.append("marked entries are not served: unusable entries were not looked for")
        return lines

    @property
    def story(self) -> list[str]:
        """The violations, and the shortest history that still shows one."""
        lines = [*map(str, self.violations[:_SHOWN])]
        if self.shortest is not None:
            steps = self.shortest.history.steps
            how = "" if self.shortest.done else ", and there was no time for more"
            lines.append(
                f"shortest history that still fails: {steps} of {self.done.steps} steps, found "
                f"in {self.shortest.executions} executions{how}"
            )
            lines += tell(self.shortest.history)
            lines += map(str, violations(self.shortest.history)[:1])
            lines.append(f"carry it out again: --ascend-stress={shortest_path(self.path)}")
        return lines


def shortest_path(history: Path) -> Path:
    """The file for the shortest failing history, next to the full one."""
    return history.with_suffix(f".shortest{history.suffix}")


def _announce_nothing(line: str) -> None: ...


@dataclass(frozen=True)
class Campaign:
    """A run below an empty ``directory`` that writes the file ``history``.

    It ends after ``seconds``, preparations included, or ``steps``, or with the first round that
    breaks a promise. It runs the schedule of ``seed``, or again the rounds of the history
    ``replay``. With ``nodes``, ranks are spread over them and share their directory. ``announce``
    shows a line while it runs.
    """

    toolchain: Toolchain
    directory: Path
    history: Path
    seed: int
    seconds: float | None = None
    steps: int | None = None
    ranks: int = 4
    operators: int = 8
    replay: Path | None = None
    nodes: Nodes | None = None
    announce: Callable[[str], None] = _announce_nothing

    def run(self) -> Result:
        """Run it, and check the history file.

        Raises ``Undecided`` if a process did not end, and ``NotDecidable`` if two fresh compiles
        deliver different kernels, and ``HistoryError`` if the history cannot be replayed.
        """
        if self.replay is not None:
            return self._run_again(read_history(self.replay))
        deadline = time.monotonic() + (math.inf if self.seconds is None else self.seconds)
        ground = self._ground(self.ranks, self.operators, self.seed)
        schedule = Schedule(
            self.seed,
            self.ranks,
            self.operators,
            ground.actions,
            ground.settings,
            ground.serves_marked,
            ground.jobs.doings,
            len(ground.header.networks),
            frozenset(ground.jobs.points),
        )
        started = time.monotonic()
        executor = Executor(ground, self.directory / "whole", self.nodes)
        self._carry_out(executor, self._bounded(schedule.rounds(), deadline), self.history)
        return self._result(executor, time.monotonic() - started)

    def _run_again(self, recorded: StressHistory) -> Result:
        header = recorded.header
        if header.operators != tuple(each.name for each in population(len(header.operators))):
            raise HistoryError(f"{self.replay}:1: operators of another version of this plugin.")
        ground = self._ground(header.ranks, len(header.operators), header.seed)
        if not set(header.networks) <= set(ground.header.networks):
            raise HistoryError(f"{self.replay}:1: this toolchain cannot do the jobs in it.")
        rounds = [each.round for each in recorded.rounds]
        started = time.monotonic()
        for number in range(_REPLAYS):
            executor = Executor(ground, self.directory / f"replay{number}", self.nodes)
            if self._carry_out(executor, rounds, self.history) is not None:
                break
        return self._result(executor, time.monotonic() - started)

    def _ground(self, ranks: int, operators: int, seed: int) -> Ground:
        directory = self.directory / "ground"
        directory.mkdir()
        ground = prepare(self.toolchain, population(operators), ranks, seed, directory, self.nodes)
        if ground.locks_by_fcntl and ground.header.profile == NodeProfile.NFS_DEFAULT.value:
            raise Undecided(
                "it locks by fcntl, which these mounts grant to everybody; nfs-nolock judges that"
            )
        return ground

    def _bounded(self, rounds: Iterator[Round], deadline: float) -> Iterator[Round]:
        left = math.inf if self.steps is None else self.steps
        for one in rounds:
            yield one
            left -= one.steps
            if left <= 0 or time.monotonic() >= deadline:
                return

    def _carry_out(
        self, executor: Executor, rounds: Iterable[Round], path: Path
    ) -> StressHistory | None:
        """Run rounds up to the first that breaks a promise. Returns the history if one does."""
        header = executor.ground.header
        checker = Checker(header)
        with HistoryWriter(path, header) as writer:
            for one in rounds:
                checker.take(executor.carry_out(one, writer))
                if checker.violations:
                    return writer.history
        return None

    def _result(self, executor: Executor, seconds: float) -> Result:
        # The verdict rests on the file alone, so anyone who has the file can check it.
        (header, records), done = open_history(self.history), Tally()
        broken = tuple(violations_of(header, done.counting(records)))
        marked = executor.ground.serves_marked
        if not broken or not is_looked_for():
            return Result(header, done, self.history, seconds, broken, serves_marked=marked)
        history = read_history(self.history)
        seen = tuple(observed_facts(executor, header, history.rounds[-1], broken))
        shortest = self._shortest(executor.ground, history, seconds)
        return Result(header, done, self.history, seconds, broken, seen, shortest, marked)

    def _shortest(self, ground: Ground, history: StressHistory, seconds: float) -> Shrunk:
        numbers = itertools.count()
        candidate = self.directory / "candidate.jsonl"
        least, most = _SHRINKING
        limit = min(most, max(least, seconds if self.seconds is None else self.seconds / 2))
        self.announce(
            f"stress fails after {history.steps} steps; shortening its history for at most "
            f"{limit:.0f} s"
        )
        deadline = time.monotonic() + limit

        def attempt(rounds: Sequence[Round]) -> StressHistory | None:
            name = f"shorter{next(numbers)}"
            try:
                executor = Executor(ground, self.directory / name, self.nodes)
                in_time = itertools.takewhile(lambda _: time.monotonic() < deadline, rounds)
                return self._carry_out(executor, in_time, candidate)
            except (Undecided, ToolchainError):
                return None  # undecided; the longer history still fails
            finally:
                shutil.rmtree(self.directory / name, ignore_errors=True)

        shrunk = shrink(history, attempt, limit)
        with HistoryWriter(shortest_path(self.history), ground.header) as writer:
            for line in shrunk.history.lines():
                writer.write(line)
        return shrunk
