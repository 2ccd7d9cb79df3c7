"""The study of one command: control, suspects, experiment, and what is left.

First the command is run on a copy of the cache as it is. Then all suspects are changed at once, and
of those the smallest set is searched for that keeps the hits. Each of its changes, taken back
alone, shows by the misses that come again what it is the cause of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, log2
from typing import TypeVar

from pytest_ascendcache.why.atc_command import is_enabled
from pytest_ascendcache.why.lab import Lab, OutOfBudgetError
from pytest_ascendcache.why.look import seen, suspects
from pytest_ascendcache.why.neighbours import other_requests, unclaimed
from pytest_ascendcache.why.request import (
    DIGEST,
    Attempt,
    InputKind,
    MissCause,
    PlaceOfUse,
    RequestError,
    SingleChange,
    UserRequest,
)

Changed = TypeVar("Changed")

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
    try:
        _Experiment(request, lab, found).run([each for each in recorded if each.apply])
    except OutOfBudgetError:
        found.is_out_of_budget = True
    found.runs, found.unread = lab.runs, len(lab.unread)
    blamed = {cause.change for cause in found.causes}
    found.differences = [each for each in recorded if each not in blamed]
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
            self._fatal(base.failure)
            return
        self._pool = _united([*suspects(self._request)], recorded)
        lab.expected = lab.runs + bound(len(self._pool), 1)
        full = None if base.served or not self._pool else self._with_all()
        if full is not None:  # it keeps no kernel at all as it is
            base = replace(base, served=dict.fromkeys(full.served, False), keys=full.keys)
        if not base.served:
            raise RequestError(
                "the command delivers no kernel and keeps none, so there is nothing to explain; "
                "give one that compiles."
            )
        found.operators = len(base.served)
        found.served = found.operators - len(base.missed)
        if not base.missed:
            return
        found.untold = tuple(sorted(base.missed))
        full = full or self._with_all()
        if full.missed and unclaimed(self._place(self._pool), full):
            full = self._beyond(full)
        self._blame(base, full)
        self._rest(base, full)

    def _fatal(self, failure: str) -> None:
        """Name damaged entries if the command fails with them only. Raises ``RequestError``."""
        place, found = self._request.place, self._found
        faults = {stem: each.problems() for stem, each in place.entries.items()}
        damaged = {stem: each for stem, each in faults.items() if each}
        without = replace(place, without=frozenset(damaged))
        if not damaged or not (served := self._lab.run(without).served):
            raise RequestError(f"the command fails by itself: it {failure}")
        told = "; ".join([*dict.fromkeys(fault for each in damaged.values() for fault in each)][:2])
        change = SingleChange(InputKind.FATAL, "", told, "", None, ", ".join([*damaged][:2]))
        found.operators = len(served)
        found.causes.append(MissCause(change, (*sorted(served),), True, self._lab.runs))

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
        for change in place.interface.single_changes(place, self._request.place):
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
        is_cold = not replace(place, cache=self._request.cache).entries
        if is_cold and rest:
            proven = {each.change for each in found.causes}
            where = replace(place, cache=self._request.cache)
            kind = InputKind.UNREADABLE if self._lab.is_unread(where) else InputKind.EMPTY
            empty = SingleChange(kind, place.below, str(self._request.cache), "", None, place.below)
            for each in [*(each for each in self._pool if each.kind in _SWITCHES), empty]:
                if each not in proven:
                    found.causes.append(MissCause(each, rest, False))
        elif rest and (is_enabled(place) or not place.interface.is_told):
            again = self._lab.refilled(place, full)
            hits = tuple(name for name in rest if again.served.get(name))
            never = tuple(name for name in rest if name not in hits)
            found.is_near = bool(unclaimed(place, full))
            if hits and not found.is_near:
                new = SingleChange(
                    InputKind.NEW, place.below, str(len(full.stored)), str(self._request.cache)
                )
                found.causes.append(MissCause(new, hits, True, self._lab.runs))
            found.is_blind = not hits
            if never and hits:
                change = SingleChange(InputKind.UNSTABLE, "", "", "")
                found.causes.append(MissCause(change, never, True, self._lab.runs))
        explained = {name for cause in found.causes for name in cause.operators}
        inferred: dict[SingleChange, list[str]] = {}
        for change, name in place.interface.inferred(place, full):
            if name not in explained:
                inferred.setdefault(change, []).append(name)
        found.causes += [MissCause(each, (*names,), False) for each, names in inferred.items()]
        explained = {name for cause in found.causes for name in cause.operators}
        found.untold = tuple(sorted(base.missed - explained))


def _united(changes: Sequence[SingleChange], others: Iterable[SingleChange]) -> list[SingleChange]:
    """Changes in order, each thing that is changed once."""
    named = {(each.kind, each.name) for each in changes}
    return [*changes, *(each for each in others if (each.kind, each.name) not in named)]


def smallest(
    changes: Sequence[Changed], reaches: Callable[[Sequence[Changed]], bool]
) -> list[Changed]:
    """The changes that are needed, in their order, found by halving. ``reaches`` tells of some of
    them whether they are enough; all of them together are.

    A shortest beginning of the changes that is enough ends with a needed one; it is put aside, and
    the rest is searched for those needed beside it.
    """
    needed: list[Changed] = []
    rest = list(changes)
    while rest and not reaches(needed):
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            if reaches([*rest[:middle], *needed]):
                high = middle
            else:
                low = middle
        needed.insert(0, rest[high - 1])
        rest = rest[: high - 1]
    return needed


def bound(changes: int, causes: int) -> int:
    """The most runs that ``causes`` causes among so many changes take."""
    return causes * (2 * ceil(log2(max(changes, 2))) + 6)
