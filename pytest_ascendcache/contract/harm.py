"""Harm: what a broken promise does to the users of the cache.

A rule's level is how binding the promise is; harm is what was observed when it was broken: a
function of facts, never of words. The first six kinds of harm fail a run for every must and should
rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from pytest_ascendcache.contract.facts import (
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

_BY_OBSERVATION = {
    (Aspect.KERNEL, Delivery.ANOTHER.value): Harm.WRONG_RESULT,
    (Aspect.KERNEL, Delivery.UNCHANGED.value): Harm.WRONG_RESULT,
    (Aspect.KERNEL, Delivery.OLD_OUTPUT.value): Harm.WRONG_RESULT,
    (Aspect.KERNEL, Delivery.NOTHING.value): Harm.WRONG_RESULT,
    (Aspect.KERNEL, Delivery.UNVERIFIED.value): Harm.OUTSIDE_TOUCHED,
    (Aspect.KERNEL, Delivery.STALE.value): Harm.STALE,
    (Aspect.NUMBERS, Numbers.WRONG.value): Harm.WRONG_RESULT,
    (Aspect.NUMBERS, Numbers.WITHOUT_A_RANK.value): Harm.WRONG_RESULT,
    (Aspect.NUMBERS, Numbers.RANK_TWICE.value): Harm.WRONG_RESULT,
    (Aspect.AGING, Aged.TOO_MANY.value): Harm.LOST_WORK,
    (Aspect.AGING, Aged.OTHERS.value): Harm.LOST_WORK,
    (Aspect.AGING, Aged.HALF.value): Harm.LOST_WORK,
    (Aspect.AGING, Aged.TOO_FEW.value): Harm.MISPLACED,
    (Aspect.FILES, Place.TOUCHED.value): Harm.OUTSIDE_TOUCHED,
    (Aspect.FILES, Place.MISPLACED.value): Harm.MISPLACED,
    (Aspect.FILES, Place.LEFT.value): Harm.MISPLACED,
    (Aspect.FILES, Place.OPEN_TO_ALL.value): Harm.MISPLACED,
    (Aspect.FILES, Place.DAMAGED.value): Harm.LOST_WORK,
    (Aspect.ENDING, Ending.CRASH.value): Harm.CRASH,
    (Aspect.ENDING, Ending.NO_END.value): Harm.HANG,
    (Aspect.ENDING, Ending.FAILURE.value): Harm.LOST_WORK,
    (Aspect.ENDING, Ending.SUCCESS.value): Harm.MISLEADING,  # where a refusal is due
    (Aspect.LATER, Later.FAILS.value): Harm.UNUSABLE,
    (Aspect.LATER, Later.COMPILES.value): Harm.UNUSABLE,
    (Aspect.LATER, Later.STORES_NOTHING.value): Harm.UNUSABLE,
    (Aspect.LATER, Later.LACKS.value): Harm.LOST_WORK,
    (Aspect.WORDS, Words.MISSING.value): Harm.MISLEADING,
}
"""The harm of what was observed, whatever was expected."""


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
