"""Chooses checks for a budget: those that notice the most for their cost.

The kill matrix says which check notices which seeded defect. But a user's defect is none of these;
it resembles some of them. So a check is worth what it would notice of defects *like* the known ones
(`LIKENESS`), and a second check that notices a known defect another way is worth something, too.
Next is always the check that adds the most for its cost. Checks that an earlier report gives reason
to ask again may come first.

Measured by leaving an eighth of the known defects out, eight times: 60 runs noticed 36 % of those
that were left out, 112 runs 48 %.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pytest_ascendcache.conformance.costs import is_elementary, life_of, needs_of, shares
from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.qualification.matrix import Kills, by_reason

LIKENESS = 0.6
"""The chance that a check which notices a known defect notices an unknown one that is like it."""
_RULE = 0.3
"""The worth of the first check of a rule, in defects."""
_CHEAP = 3.0
"""Runs of an elementary check that every budget contains. Dearer ones have to earn their place."""
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
    """Candidates that are chosen together, and their cost.

    ``notices`` counts, for each defect, the checks that notice it.
    """

    checks: list[Candidate]
    cost: float
    notices: Counter[str]

    @property
    def rules(self) -> set[str]:
        return {each.rule for each in self.checks}


class _Worth:
    """What a portion adds to what is chosen, in defects that would be noticed."""

    def __init__(self, likeness: float, rule: float) -> None:
        self._missed = 1.0 - likeness
        self._rule = rule
        self._unnoticed: dict[str, float] = {}
        """The chance that a defect like this one is missed, where it is below 1."""
        self._judged: set[str] = set()

    def of(self, portion: _Portion) -> float:
        """The defects that it notices and the chosen ones miss, and the rules that it adds, for
        each unit of its cost."""
        worth = self._rule * len(portion.rules - self._judged)
        for defect, checks in portion.notices.items():
            worth += self._unnoticed.get(defect, 1.0) * (1.0 - self._missed**checks)
        return worth / portion.cost

    def choose(self, portion: _Portion) -> None:
        self._judged |= portion.rules
        for defect, checks in portion.notices.items():
            self._unnoticed[defect] = self._unnoticed.get(defect, 1.0) * self._missed**checks


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
    per_run: float = 1.0,
) -> Cover:
    """Choose checks whose total cost stays within ``limit``.

    ``notices`` comes from :func:`noticed_by`, ``per_run`` is the cost of one run. One check of each
    rule in ``first`` comes before all others, within half of the limit, then the elementary checks
    that are cheap. When no check adds anything, the rest of the limit goes to the cheapest
    remaining checks.
    """
    left = _portions(candidates, notices)
    wanted = frozenset(first)
    ahead = _ahead(left, wanted, limit * _AHEAD)
    cheap = [each for each in left if _is_elementary(each) and each.cost <= _CHEAP * per_run]
    taken = _filled(_filled(ahead, cheap, limit), left, limit)
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
    found = _filled([], _portions(candidates, covers), math.inf, _Worth(1.0, 1.0))
    return frozenset(each.check for portion in _needed(found) for each in portion.checks)


def _portions(
    candidates: Collection[Candidate], notices: Mapping[str, frozenset[str]]
) -> list[_Portion]:
    """The candidates in groups that are chosen together, the cheapest first."""
    together: dict[str, list[Candidate]] = {}
    for each in sorted(candidates, key=lambda each: (each.cost, each.check)):
        together.setdefault(each.life or each.check, []).append(each)
    portions = []
    for checks in together.values():
        noticed = Counter(one for each in checks for one in sorted(notices.get(each.check, ())))
        portions.append(_Portion(checks, sum(each.cost for each in checks), noticed))
    return sorted(portions, key=lambda each: each.cost)


def _is_elementary(portion: _Portion) -> bool:
    return any(is_elementary(each.check) for each in portion.checks)


def _ahead(left: Sequence[_Portion], wanted: frozenset[str], limit: float) -> list[_Portion]:
    """Portions with a wanted check, one for each rule of such checks; those that add the most for
    their cost come first."""
    found: list[_Portion] = []
    spent = 0.0
    touched: set[str] = set()
    worth = _Worth(LIKENESS, _RULE)

    def new(portion: _Portion) -> set[str]:
        return {each.rule for each in portion.checks if each.check in wanted} - touched

    while fitting := [each for each in left if new(each) and spent + each.cost <= limit]:
        best = max(fitting, key=worth.of)
        found.append(best)
        spent += best.cost
        touched |= new(best)
        worth.choose(best)
    return found


def _filled(
    taken: Sequence[_Portion], left: Sequence[_Portion], limit: float, worth: _Worth | None = None
) -> list[_Portion]:
    """What was taken, extended by the portions that fit and add the most for their cost."""
    worth = worth or _Worth(LIKENESS, _RULE)
    found = list(taken)
    for each in found:
        worth.choose(each)
    spent = sum(each.cost for each in found)
    others = [each for each in left if each not in found]
    # What a portion adds can only shrink, so a worth that is still true when its turn comes is the
    # greatest. Of equals the first one wins, which is the cheapest.
    turns = [(-worth.of(each), number, each) for number, each in enumerate(others)]
    heapq.heapify(turns)
    while turns:
        assumed, number, best = turns[0]
        if spent + best.cost > limit:  # and will not fit later
            heapq.heappop(turns)
            continue
        true = -worth.of(best)
        if true != assumed:
            heapq.heapreplace(turns, (true, number, best))
            continue
        heapq.heappop(turns)
        found.append(best)
        spent += best.cost
        worth.choose(best)
    return found


def _needed(taken: Sequence[_Portion]) -> list[_Portion]:
    """The portions without which a defect or a rule would be missed; the last are judged first."""
    times = Counter(what for each in taken for what in (*each.notices, *each.rules))
    needed = []
    for each in reversed(taken):
        covers = {*each.notices, *each.rules}
        if any(times[what] == 1 for what in covers):
            needed.append(each)
        else:
            times.subtract(covers)
    return needed
