"""The study of one command: control, suspects, experiment, and what is left.

First the command is run on a copy of the cache as it is. Then all suspects are changed at once, and
of those the smallest set is searched for that keeps the hits. Each of its changes, taken back
alone, shows by the misses that come again what it is the cause of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pytest_ascendcache.why.lab import Attempt, Lab, OutOfBudgetError
from pytest_ascendcache.why.look import ENABLE, entries_of, seen, suspects
from pytest_ascendcache.why.neighbours import other_requests, single_changes, unclaimed
from pytest_ascendcache.why.request import (
    DIGEST,
    InputKind,
    PlaceOfUse,
    RequestError,
    SingleChange,
    UserRequest,
)
from pytest_ascendcache.why.search import bound, smallest

_SWITCHES = (
    InputKind.MODE,
    InputKind.FORCE,
    InputKind.DEBUG_LEVEL,
    InputKind.DEBUG_CONFIG,
    InputKind.DIRECTORY,
)
"""Suspects that the documents make causes even where no run can show it."""


class MissAnswer(str, Enum):
    """What a study comes to. The values appear in reports."""

    SERVED = "served"
    EXPLAINED = "explained"
    PARTLY = "partly"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class MissCause:
    """Why some operators are not served. ``is_proven``: runs show it in both directions. ``runs``
    were needed until it was found."""

    change: SingleChange
    operators: tuple[str, ...]
    is_proven: bool
    runs: int = 0


@dataclass
class Study:
    """All that was found out. ``untold`` are operators without any cause. It is near if the
    cache has other kernels of their types, and blind if nothing is served even from a cache that
    the same command has just filled."""

    request: UserRequest
    operators: int = 0
    served: int = 0
    causes: list[MissCause] = field(default_factory=list)
    untold: tuple[str, ...] = ()
    differences: list[SingleChange] = field(default_factory=list)
    runs: int = 0
    unread: int = 0
    is_out_of_budget: bool = False
    is_blind: bool = False
    is_near: bool = False
    answer: MissAnswer = MissAnswer.UNDECIDED


def study(request: UserRequest, lab: Lab, recorded: Sequence[SingleChange] = ()) -> Study:
    """Find out why a command misses; ``recorded`` are differences from where it hits. Raises
    ``RequestError`` if the command fails by itself, ``ToolchainError`` if it cannot be started."""
    found = Study(request)
    found.differences = [each for each in recorded if each.apply is None]
    try:
        _Experiment(request, lab, found).run([each for each in recorded if each.apply])
    except OutOfBudgetError:
        found.is_out_of_budget = True
    found.runs, found.unread = lab.runs, len(lab.unread)
    explained = {name for cause in found.causes for name in cause.operators}
    if found.operators and found.served == found.operators:
        found.answer = MissAnswer.SERVED
    elif found.causes and len(explained) + found.served >= found.operators:
        found.answer = MissAnswer.EXPLAINED
    elif found.causes:
        found.answer = MissAnswer.PARTLY
    return found


class _Experiment:
    def __init__(self, request: UserRequest, lab: Lab, found: Study) -> None:
        self._request, self._lab, self._found = request, lab, found
        self._pool: list[SingleChange] = []

    def run(self, recorded: Sequence[SingleChange]) -> None:
        lab, found = self._lab, self._found
        base = lab.run(self._request.place)
        if base.failure:
            raise RequestError(f"the command fails by itself: it {base.failure}")
        if not base.served:
            raise RequestError("the command delivers no kernel, so there is nothing to explain.")
        found.operators = len(base.served)
        found.served = found.operators - len(base.missed)
        if not base.missed:
            return
        found.untold = tuple(sorted(base.missed))
        self._pool = _united(suspects(self._request), recorded)
        lab.expected = lab.runs + bound(len(self._pool), 1)
        full = self._with_all()
        if full.missed and unclaimed(self._place(self._pool), full):
            full = self._beyond(full)
        self._blame(base, full)
        self._rest(base, full)

    def _place(self, changes: Iterable[SingleChange]) -> PlaceOfUse:
        """The place with some changes, in the order of the pool."""
        place, chosen = self._request.place, list(changes)
        for each in self._pool:
            place = each.applied(place) if each in chosen else place
        return place

    def _with_all(self) -> Attempt:
        """The outcome with all suspects changed, and those too that only this shows. A suspect that
        makes the command fail is left out."""
        while True:
            place = self._place(self._pool)
            outcome = self._lab.run(place)
            more = _united(self._pool, seen(self._lab, place, outcome))
            if outcome.failure and self._pool:
                unsets = {each for each in self._pool if each.here.startswith(DIGEST)}
                self._pool = [
                    each for each in self._pool[: None if unsets else -1] if each not in unsets
                ]
            elif len(more) == len(self._pool):
                return outcome
            else:
                self._pool = more

    def _beyond(self, full: Attempt) -> Attempt:
        """Try single changes of options, and variants of operators, that no suspect names."""
        lab, place = self._lab, self._place(self._pool)
        if others := other_requests(lab, place, full):
            self._pool += others
            full = lab.run(self._place(self._pool))
        for change in single_changes(place, self._request.place.soc):
            if not unclaimed(self._place(self._pool), full):
                break
            self._pool.append(change)
            outcome = lab.run(self._place(self._pool))
            if outcome.failure or not self._fewer(outcome, full):
                self._pool.pop()
            else:
                full = self._with_all()
        return full

    @staticmethod
    def _fewer(outcome: Attempt, than: Attempt) -> bool:
        return bool(outcome.served) and len(outcome.missed) < len(than.missed)

    def _blame(self, base: Attempt, full: Attempt) -> None:
        """Search the smallest set of changes, and tell which operators each is the cause of."""
        goal = full.missed
        if not self._fewer(full, base):
            return

        def reaches(some: Sequence[SingleChange]) -> bool:
            outcome = self._lab.run(self._place(some))
            return bool(outcome.served) and outcome.missed <= goal

        needed = smallest(self._pool, reaches)
        for change in needed:
            others = [each for each in needed if each is not change]
            outcome = self._lab.run(self._place(others))
            back = outcome.missed - goal if outcome.served else base.missed - goal
            if back:
                cause = MissCause(change, tuple(sorted(back)), True, self._lab.runs)
                self._found.causes.append(cause)
        self._found.causes.sort(key=lambda each: -len(each.operators))

    def _rest(self, base: Attempt, full: Attempt) -> None:
        """Tell of operators that no change makes hits why that may be right."""
        rest = tuple(sorted(full.missed & base.missed))
        found, place = self._found, self._place(self._pool)
        is_cold = not entries_of(self._request.cache, place.soc)
        if is_cold and rest:
            proven = {each.change for each in found.causes}
            empty = SingleChange(InputKind.EMPTY, place.soc, str(self._request.cache), "")
            for each in [*(each for each in self._pool if each.kind in _SWITCHES), empty]:
                if each not in proven:
                    found.causes.append(MissCause(each, rest, False))
        elif rest and place.options.get("op_compiler_cache_mode") == ENABLE:
            again = self._lab.refilled(place, full)
            hits = tuple(name for name in rest if again.served.get(name))
            never = tuple(name for name in rest if name not in hits)
            found.is_near = bool(unclaimed(place, full))
            if hits and not found.is_near:
                new = SingleChange(
                    InputKind.NEW, place.soc, str(len(full.stored)), str(self._request.cache)
                )
                found.causes.append(MissCause(new, hits, True, self._lab.runs))
            found.is_blind = not hits
            if never and hits:
                change = SingleChange(InputKind.UNSTABLE, "", "", "")
                found.causes.append(MissCause(change, never, True, self._lab.runs))
        explained = {name for cause in found.causes for name in cause.operators}
        found.untold = tuple(sorted(base.missed - explained))


def _united(changes: Sequence[SingleChange], others: Iterable[SingleChange]) -> list[SingleChange]:
    """Changes in order, each thing that is changed once."""
    named = {(each.kind, each.name) for each in changes}
    return [*changes, *(each for each in others if (each.kind, each.name) not in named)]
