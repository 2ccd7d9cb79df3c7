"""The shortest schedule that still fails, by carrying out shorter and shorter ones.

Delta debugging over rounds first, then over the steps of each round, then over the operators of
each compile. Ranks race, so a candidate is tried more than once before it is taken for sound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_ascendcache.stress.history import Compile, History, Round

Part = TypeVar("Part")
Attempt = Callable[[Sequence[Round]], History | None]
"""Carries out a candidate: its history where it fails, else ``None``."""


@dataclass(frozen=True)
class Shrunk:
    """The shortest failing history, and what it took; ``done`` where nothing more can go."""

    history: History
    executions: int
    done: bool


def shrink(
    failing: History, attempt: Attempt, seconds: float, tries: int = 2, most: int = 400
) -> Shrunk:
    """Shorten a failing history within ``seconds`` and ``most`` executions."""
    return _Shrinking(failing, attempt, time.monotonic() + seconds, tries, most).run()


class _Spent(Exception):
    """The budget is used up."""


class _Shrinking:
    def __init__(
        self, failing: History, attempt: Attempt, deadline: float, tries: int, most: int
    ) -> None:
        self._best = failing
        self._attempt = attempt
        self._deadline = deadline
        self._tries = tries
        self._most = most
        self._executions = 0

    def run(self) -> Shrunk:
        done = True
        try:
            self._last_rounds()
            self._until_stable()
        except _Spent:
            done = False
        return Shrunk(self._best, self._executions, done)

    @property
    def _rounds(self) -> tuple[Round, ...]:
        return tuple(each.round for each in self._best.rounds)

    def _fails(self, rounds: Sequence[Round]) -> bool:
        for _ in range(self._tries):
            if self._executions >= self._most or time.monotonic() >= self._deadline:
                raise _Spent
            self._executions += 1
            history = self._attempt(rounds)
            if history is not None:
                self._best = history
                return True
        return False

    def _last_rounds(self) -> None:
        """Most failures need only what came right before."""
        length = 1
        while length < len(self._rounds):
            if self._fails(self._rounds[-length:]):
                return
            length *= 2

    def _until_stable(self) -> None:
        before = -1
        while before != _size(self._rounds):
            before = _size(self._rounds)
            self._reduce(self._rounds, lambda rounds: rounds)
            for index in range(len(self._rounds) - 1, -1, -1):
                if index < len(self._rounds):
                    self._within_round(index)

    def _within_round(self, index: int) -> None:
        def put(one: Round) -> tuple[Round, ...]:
            # A candidate's failure may come before its end: what follows is gone then.
            rounds = self._rounds
            return (*rounds[:index], one, *rounds[index + 1 :]) if index < len(rounds) else ()

        for candidate in _simpler(self._rounds[index]):
            if candidate.steps and (rounds := put(candidate)) and self._fails(rounds):
                return self._within_round(index) if index < len(self._rounds) else None
        return None

    def _reduce(
        self, parts: Sequence[Part], build: Callable[[Sequence[Part]], Sequence[Round]]
    ) -> None:
        """Zeller's ddmin, complements only."""
        chunks = 2
        while len(parts) >= 2:
            size = -(-len(parts) // chunks)
            for start in range(0, len(parts), size):
                rest = [*parts[:start], *parts[start + size :]]
                if rest and self._fails(build(rest)):
                    parts, chunks = rest, max(2, chunks - 1)
                    break
            else:
                if size == 1:
                    return
                chunks = min(len(parts), chunks * 2)


def _simpler(one: Round) -> Iterator[Round]:
    """A round with one thing less."""
    for index in range(len(one.compiles)):
        yield replace(one, compiles=_without(one.compiles, index))
    for index in range(len(one.disturbances)):
        yield replace(one, disturbances=_without(one.disturbances, index))
    for index, job in enumerate(one.jobs):
        yield replace(one, jobs=_without(one.jobs, index))
        if job.fault is not None:
            jobs = (*one.jobs[:index], replace(job, fault=None), *one.jobs[index + 1 :])
            yield replace(one, jobs=jobs)
    if one.rebuild is not None:
        yield replace(one, rebuild=None)
    if one.later is not None:
        yield replace(one, later=None)
        for operator in one.later.operators if len(one.later.operators) > 1 else ():
            yield replace(one, later=replace(one.later, operators=(operator,)))
    for index, each in enumerate(one.compiles):
        for simpler in _simpler_compiles(each):
            compiles = (*one.compiles[:index], simpler, *one.compiles[index + 1 :])
            yield replace(one, compiles=compiles)


def _simpler_compiles(one: Compile) -> Iterator[Compile]:
    if one.fault is not None:
        yield replace(one, fault=None)
    if len(one.operators) > 1:
        for index in range(len(one.operators)):
            yield replace(one, operators=_without(one.operators, index))


def _without(parts: tuple[Part, ...], index: int) -> tuple[Part, ...]:
    return parts[:index] + parts[index + 1 :]


def _size(rounds: Sequence[Round]) -> int:
    return sum(
        1
        + each.steps
        + sum(len(one.operators) + bool(one.fault) for one in each.compiles)
        + sum(bool(one.fault) for one in each.jobs)
        + (len(each.later.operators) if each.later else 0)
        for each in rounds
    )
