"""Harm: what a broken promise does to the users of the cache.

A rule's level is how binding the promise is; harm is what was observed when it was broken: a
function of facts, never of words. The first six kinds of harm fail a run for every must and should
rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from pytest_ascendcache.contract.facts import (
    ASPECTS,
    Aged,
    Aspect,
    Delivery,
    Ending,
    Fact,
    Later,
    Numbers,
    Place,
    Words,
)


class Harm(str, Enum):
    """Kinds of harm, the worst first. Reports are sorted by harm."""

    WRONG_RESULT = "wrong-result"
    OUTSIDE_TOUCHED = "outside-touched"
    UNUSABLE = "unusable"
    HANG = "hang"
    CRASH = "crash"
    STALE = "stale-kernel"
    LOST_WORK = "lost-work"
    MISPLACED = "misplaced"
    MISLEADING = "misleading"
    NOT_DETERMINED = "not-determined"

    @property
    def fails(self) -> bool:
        """Whether this harm fails the run for must and should rules."""
        return self.rank < Harm.LOST_WORK.rank

    @property
    def rank(self) -> int:
        """The position in the order of severity, 0 for the worst."""
        return _ORDER.index(self)


_ORDER = tuple(Harm)

_OBSERVED: Mapping[Harm, tuple[Enum, ...]] = {
    Harm.WRONG_RESULT: (
        *(Delivery.ANOTHER, Delivery.UNCHANGED, Delivery.OLD_OUTPUT, Delivery.NOTHING),
        *(Numbers.WRONG, Numbers.WITHOUT_A_RANK, Numbers.RANK_TWICE),
    ),
    Harm.OUTSIDE_TOUCHED: (Delivery.UNVERIFIED, Place.TOUCHED),
    Harm.UNUSABLE: (Later.FAILS, Later.COMPILES, Later.STORES_NOTHING),
    Harm.HANG: (Ending.NO_END,),
    Harm.CRASH: (Ending.CRASH,),
    Harm.STALE: (Delivery.STALE,),
    Harm.LOST_WORK: (
        *(Aged.TOO_MANY, Aged.OTHERS, Aged.HALF),
        *(Place.DAMAGED, Ending.FAILURE, Later.LACKS),
    ),
    Harm.MISPLACED: (Aged.TOO_FEW, Place.MISPLACED, Place.LEFT, Place.OPEN_TO_ALL),
    Harm.MISLEADING: (Ending.SUCCESS, Words.MISSING),  # a success where a refusal is due
}
"""What was observed, by the harm that it does whatever was expected."""

_BY_OBSERVATION = {
    (ASPECTS[type(each)][0], each.value): harm for harm, seen in _OBSERVED.items() for each in seen
}


def harm_of(facts: Iterable[Fact]) -> Harm | None:
    """The worst harm that facts show; None if there are none."""
    return min(map(harm_in, facts), key=lambda each: each.rank, default=None)


def harm_in(fact: Fact) -> Harm:
    """The harm that one fact shows."""
    if fact.aspect in (Aspect.OUTCOME, Aspect.ENTRY):
        return _of_entry(fact)
    return _BY_OBSERVATION.get((fact.aspect, fact.observed), Harm.NOT_DETERMINED)


def _of_entry(fact: Fact) -> Harm:
    """The harm of a wrong outcome (``reused/kept``, or ``reused`` where the entry does not matter)
    or of an entry's wrong fate (``kept``).

    An old kernel delivered where the table demands a new one is stale. Work is lost where a kernel
    is compiled that should be reused, or an entry is gone or replaced that should stay.
    """
    delivered, fate = _split(fact.observed)
    allowed = [_split(each) for each in fact.expected]
    sources, fates = {each[0] for each in allowed}, {each[1] for each in allowed}
    if delivered == "reused" and sources == {"compiled"}:
        return Harm.STALE
    if delivered == "compiled" and sources == {"reused"}:
        return Harm.LOST_WORK
    if fate in ("removed", "absent", "rewritten") and fates & {"kept", "stored", "rewritten"}:
        return Harm.LOST_WORK
    if fate in ("kept", "stored") and fates & {"absent", "removed", "rewritten"}:
        return Harm.MISPLACED
    return Harm.NOT_DETERMINED


def _split(code: str) -> tuple[str, str]:
    """Where a kernel came from and the fate of its entry; empty for what a code leaves out."""
    first, slash, second = code.partition("/")
    if slash or first in ("compiled", "reused"):
        return first, second
    return "", first
