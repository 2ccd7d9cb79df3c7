"""Chooses checks for a budget: those that notice the most defects for their cost.

The kill matrix says which check notices which seeded defect. The greedy cover orders checks by it:
next is always the check that notices the most new defects for its cost, where the first check of a
rule counts as one more defect. Then checks are exchanged for others that cover more within the
budget, because the greedy cover spends it on cheap checks before it reaches costly ones that notice
much. Checks that an earlier report gives reason to ask again may come first.
"""

from __future__ import annotations

import functools
import heapq
import math
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_ascendcache.conformance.costs import is_elementary, life_of, needs_of, shares
from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.qualification.matrix import Kills, by_reason

_AHEAD = 0.5
"""The share of a limit for checks that are put first; the rest is for new findings."""


@dataclass(frozen=True)
class Candidate:
    """A check that may be chosen, by its name below the suite, with the rule it judges.

    ``cost`` is in the unit of the limit: runs of the toolchain, or seconds. It is more than 0.
    Checks of one ``life`` look at the same runs; they are chosen together.
    """

    check: str
    rule: str
    cost: float
    life: str = ""


@dataclass(frozen=True)
class Cover:
    """The chosen checks, the most telling first, and how many known defects they notice.

    ``known`` counts the defects that some candidate notices. ``noticed`` is a lower bound, since
    the matrix names only a few checks for each defect. ``silent`` are rules without a chosen check,
    ``ahead`` the chosen checks that were put first.
    """

    chosen: tuple[str, ...]
    candidates: int
    cost: float
    noticed: int
    known: int
    silent: tuple[str, ...]
    ahead: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The noticed share of the known defects, from 0 to 1."""
        return self.noticed / self.known if self.known else 0.0


@dataclass(frozen=True, eq=False)
class _Portion:
    """Candidates that are chosen together, their cost, and what they cover.

    ``covers`` has a bit for each defect they notice and for each of their rules.
    """

    checks: list[Candidate]
    cost: float
    covers: int

    def gain(self, covered: int) -> float:
        """How much it adds to what is covered, for its cost."""
        return (self.covers & ~covered).bit_count() / self.cost


def candidates_of(
    rules: Mapping[str, str],
    capabilities: frozenset[Capability],
    per_run: float = 1.0,
) -> list[Candidate]:
    """The checks (with the rules they judge) that apply to a toolchain, with their costs.

    A check costs at least one run, even if others share it, because the others may not be chosen.
    Checks of one life are chosen together, so that only their true share counts.
    """
    known = load_rules()
    runs = shares(
        check
        for check, rule in rules.items()
        if known[rule].capabilities | needs_of(check) <= capabilities
    )
    found = []
    for check, needed in runs.items():
        life = life_of(check)
        cost = (needed if life else max(1.0, needed)) * per_run
        found.append(Candidate(check, rules[check], cost, life))
    return found


def noticed_by(
    kills: Kills, checks: Collection[str], every_edition: bool = False
) -> dict[str, frozenset[str]]:
    """The recorded defects that each of these checks notices, in the default edition or in all.

    A vendor's deviations are named by their reasons.
    """
    found: dict[str, set[str]] = {}
    for defect, records in by_reason(kills).items():
        if " (" in defect and not every_edition:
            continue
        for each in records:
            if each.check in checks:
                found.setdefault(each.check, set()).add(defect)
    return {check: frozenset(defects) for check, defects in found.items()}


def cover(
    candidates: Collection[Candidate],
    notices: Mapping[str, frozenset[str]],
    limit: float,
    first: Collection[str] = (),
) -> Cover:
    """Choose checks whose total cost stays within ``limit``.

    ``notices`` comes from :func:`noticed_by`. One check of each rule in ``first`` comes before all
    others, within half of the limit, then the elementary checks. When no check notices anything
    new, the rest of the limit goes to the cheapest remaining checks.
    """
    left = _portions(candidates, notices)
    wanted = frozenset(first)
    ahead = _ahead(left, wanted, limit * _AHEAD)
    bases = [each for each in left if any(is_elementary(one.check) for one in each.checks)]
    ahead = _filled(ahead, bases, limit)
    telling = _filled(ahead, left, limit, only_new=True)
    telling = _improved(telling, left, ahead, limit)
    taken = _filled(telling, left, limit)
    rest = sorted(_others(taken, ahead), key=lambda each: each.cost)
    taken = _filled(ahead, rest, math.inf)  # in their order
    chosen = [each for portion in taken for each in portion.checks]
    seen = frozenset().union(*(notices.get(each.check, ()) for each in chosen))
    touched = {each.rule for each in chosen}
    return Cover(
        chosen=tuple(each.check for each in chosen),
        candidates=len(candidates),
        cost=sum(each.cost for each in chosen),
        noticed=len(seen),
        known=len(frozenset().union(*notices.values())) if notices else 0,
        silent=tuple(sorted({each.rule for each in candidates} - touched)),
        ahead=tuple(
            each.check for portion in ahead for each in portion.checks if each.check in wanted
        ),
    )


def smallest(
    candidates: Collection[Candidate], covers: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """A set of checks that notice all that the candidates can notice and judge all their rules.

    It costs little, and no check can be left out. ``covers`` comes from :func:`noticed_by` and may
    contain more.
    """
    left = _portions(candidates, covers)
    needed = _without_idle(_filled([], left, math.inf, only_new=True))
    return frozenset(each.check for portion in needed for each in portion.checks)


def _portions(
    candidates: Collection[Candidate], covers: Mapping[str, frozenset[str]]
) -> list[_Portion]:
    """The candidates in groups that are chosen together, the cheapest first."""
    together: dict[str, list[Candidate]] = {}
    for each in sorted(candidates, key=lambda each: (each.cost, each.check)):
        together.setdefault(each.life or each.check, []).append(each)
    names = sorted({each.rule for each in candidates}.union(*covers.values()))
    bits = {name: 1 << number for number, name in enumerate(names)}
    portions = []
    for checks in together.values():
        found = {each.rule for each in checks}
        found = found.union(*(covers.get(each.check, ()) for each in checks))
        cost = sum(each.cost for each in checks)
        portions.append(_Portion(checks, cost, _union(bits[name] for name in found)))
    return sorted(portions, key=lambda each: each.cost)


def _union(covers: Iterable[int]) -> int:
    return functools.reduce(operator.or_, covers, 0)


def _cost(portions: Iterable[_Portion]) -> float:
    return sum(each.cost for each in portions)


def _covered(portions: Iterable[_Portion]) -> int:
    return _union(each.covers for each in portions)


def _others(portions: Sequence[_Portion], these: Collection[_Portion]) -> list[_Portion]:
    known = frozenset(these)
    return [each for each in portions if each not in known]


def _ahead(left: Sequence[_Portion], wanted: frozenset[str], limit: float) -> list[_Portion]:
    """Portions with a wanted check, one for each rule of such checks; those that cover the most for
    their cost come first."""
    found: list[_Portion] = []
    spent = 0.0
    touched: set[str] = set()
    covered = 0

    def new(portion: _Portion) -> set[str]:
        return {each.rule for each in portion.checks if each.check in wanted} - touched

    while fitting := [each for each in left if new(each) and spent + each.cost <= limit]:
        best = max(fitting, key=lambda each: each.gain(covered))
        found.append(best)
        spent += best.cost
        touched |= new(best)
        covered |= best.covers
    return found


def _filled(
    taken: Sequence[_Portion], left: Sequence[_Portion], limit: float, only_new: bool = False
) -> list[_Portion]:
    """What was taken, extended by the portions that fit and cover the most for their cost.

    With ``only_new`` it ends when no portion covers anything new.
    """
    found = list(taken)
    spent = _cost(found)
    covered = _covered(found)
    # What a portion adds can only shrink, so a gain that is still true when its turn comes is the
    # greatest. Of equals the first one wins, which is the cheapest.
    turns = [
        (-each.gain(covered), number, each) for number, each in enumerate(_others(left, found))
    ]
    heapq.heapify(turns)
    while turns:
        assumed, number, best = turns[0]
        if spent + best.cost > limit:  # and will not fit later
            heapq.heappop(turns)
            continue
        gain = -best.gain(covered)
        if gain != assumed:
            heapq.heapreplace(turns, (gain, number, best))
            continue
        if only_new and not gain:
            break
        heapq.heappop(turns)
        found.append(best)
        spent += best.cost
        covered |= best.covers
    return found


def _improved(
    taken: list[_Portion], left: Sequence[_Portion], kept: Sequence[_Portion], limit: float
) -> list[_Portion]:
    """What was taken, after all exchanges that cover more and fit. ``kept`` portions stay."""
    while (better := next(_exchanges(taken, left, kept, limit), None)) is not None:
        taken = better
    return taken


def _exchanges(
    taken: Sequence[_Portion], left: Sequence[_Portion], kept: Sequence[_Portion], limit: float
) -> Iterator[list[_Portion]]:
    """Selections that cover more than ``taken``.

    First without one portion, the costliest first. Then with another portion in the place of those
    that cover the least for their cost; portions that cover the most come first.
    """
    covered = _covered(taken)
    for given_up in sorted(_others(taken, kept), key=lambda each: -each.cost):
        remaining = _others(taken, [given_up])
        untouched = _others(left, [given_up])
        yield from _better(_filled(remaining, untouched, limit, only_new=True), covered, limit)
    for other in sorted(left, key=lambda each: -(each.covers & ~covered).bit_count()):
        if other.covers & ~covered:
            room = _with_room([*taken, other], [*kept, other], limit)
            yield from _better(_filled(room, left, limit, only_new=True), covered, limit)


def _better(portions: list[_Portion], covered: int, limit: float) -> Iterator[list[_Portion]]:
    """These portions, if they cover more and fit."""
    if _covered(portions).bit_count() > covered.bit_count() and _cost(portions) <= limit:
        yield portions


def _with_room(
    taken: Sequence[_Portion], kept: Collection[_Portion], limit: float
) -> list[_Portion]:
    """What was taken, without as many portions as must go to fit the limit: those that cover the
    least, beyond what others cover, for their cost."""
    found = list(taken)
    while _cost(found) > limit and (loose := _others(found, kept)):
        once = more_than_once = 0
        for each in found:
            more_than_once |= once & each.covers
            once |= each.covers
        shared = more_than_once
        found.remove(min(loose, key=lambda each: each.gain(shared)))
    return found


def _without_idle(taken: Sequence[_Portion]) -> list[_Portion]:
    """The portions without which a defect or a rule would be missed; the last are judged last."""
    needed: list[_Portion] = []
    for number, each in enumerate(taken):
        if each.covers & ~_covered([*needed, *taken[number + 1 :]]):
            needed.append(each)
    return needed
