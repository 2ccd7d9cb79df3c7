"""Finds the shortest schedule that still fails, by running shorter and shorter ones.

Delta debugging over rounds, then over the steps of each round, then over the operators of each
compile. Ranks race, so a candidate counts as sound only after several executions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_ascendcache.stress.history import Round, StressHistory

Part = TypeVar("Part")
Attempt = Callable[[Sequence[Round]], StressHistory | None]
"""Runs a candidate. Returns its history if it fails, else None."""


@dataclass(frozen=True)
class Shrunk:
    """The shortest failing history. ``done`` is False if the time or the executions ran out."""

    history: StressHistory
    executions: int
    done: bool


def shrink(
    failing: StressHistory, attempt: Attempt, seconds: float, tries: int = 2, most: int = 400
) -> Shrunk:
    """Shorten a failing history within ``seconds`` and ``most`` executions. What does not fail in
    ``tries`` executions counts as sound."""
    shrinking = _Shrinking(failing, attempt, time.monotonic() + seconds, tries, most)
    try:
        shrinking.keep_last_rounds()
        shrinking.reduce()
    except _Spent:
        return Shrunk(shrinking.best, shrinking.executions, done=False)
    return Shrunk(shrinking.best, shrinking.executions, done=True)


class _Spent(Exception):
    """The budget is used up."""


@dataclass
class _Shrinking:
    best: StressHistory
    attempt: Attempt
    deadline: float
    tries: int
    most: int
    executions: int = 0

    @property
    def _rounds(self) -> tuple[Round, ...]:
        return tuple(each.round for each in self.best.rounds)

    def _fails(self, rounds: Sequence[Round]) -> bool:
        for _ in range(self.tries):
            if self.executions >= self.most or time.monotonic() >= self.deadline:
                raise _Spent
            self.executions += 1
            history = self.attempt(rounds)
            if history is not None:
                self.best = history
                return True
        return False

    def keep_last_rounds(self) -> None:
        """Keep the fewest last rounds that fail: most failures need no others."""
        length = 1
        while length < len(self._rounds):
            if self._fails(self._rounds[-length:]):
                return
            length *= 2

    def reduce(self) -> None:
        """Drop rounds and steps until nothing more can go."""
        before = -1
        while before != _size(self._rounds):
            before = _size(self._rounds)
            self._drop_rounds()
            for index in range(len(self._rounds) - 1, -1, -1):
                if index < len(self._rounds):
                    self._within_round(index)

    def _within_round(self, index: int) -> None:
        for candidate in _simpler(self._rounds[index]):
            if candidate.steps and self._fails(_with(self._rounds, index, candidate)):
                # A candidate may fail in an earlier round: this one is gone then.
                if index < len(self._rounds):
                    self._within_round(index)
                return

    def _drop_rounds(self) -> None:
        """Zeller's ddmin, complements only."""
        rounds, chunks = self._rounds, 2
        while len(rounds) >= 2:
            size = -(-len(rounds) // chunks)
            for start in range(0, len(rounds), size):
                rest = rounds[:start] + rounds[start + size :]
                if rest and self._fails(rest):
                    rounds, chunks = rest, max(2, chunks - 1)
                    break
            else:
                if size == 1:
                    return
                chunks = min(len(rounds), chunks * 2)


def _simpler(one: Round) -> Iterator[Round]:
    """The round, each time without one thing."""
    for index in range(len(one.compiles)):
        yield replace(one, compiles=_with(one.compiles, index))
    for index in range(len(one.disturbances)):
        yield replace(one, disturbances=_with(one.disturbances, index))
    for index, job in enumerate(one.jobs):
        yield replace(one, jobs=_with(one.jobs, index))
        if job.fault is not None:
            yield replace(one, jobs=_with(one.jobs, index, replace(job, fault=None)))
    if one.rebuild is not None:
        yield replace(one, rebuild=None)
    if one.later is not None:
        yield replace(one, later=None)
        for operator in one.later.operators if len(one.later.operators) > 1 else ():
            yield replace(one, later=replace(one.later, operators=(operator,)))
    for index, each in enumerate(one.compiles):
        simpler = [replace(each, fault=None)] if each.fault is not None else []
        if len(each.operators) > 1:
            parts = (_with(each.operators, place) for place in range(len(each.operators)))
            simpler += [replace(each, operators=operators) for operators in parts]
        for compile_ in simpler:
            yield replace(one, compiles=_with(one.compiles, index, compile_))


def _with(parts: tuple[Part, ...], index: int, *new: Part) -> tuple[Part, ...]:
    """The parts, with ``new`` in place of one of them."""
    return (*parts[:index], *new, *parts[index + 1 :])


def _size(rounds: Sequence[Round]) -> int:
    return sum(
        1
        + each.steps
        + sum(len(one.operators) + bool(one.fault) for one in each.compiles)
        + sum(bool(one.fault) for one in each.jobs)
        + (len(each.later.operators) if each.later else 0)
        for each in rounds
    )
