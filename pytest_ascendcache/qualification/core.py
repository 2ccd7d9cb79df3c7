"""The core of the suite: the checks that ``pytest --ascend-cache`` runs by default.

Most checks have cases: one question asked with other types, moments, surroundings and combinations.
On a real atc all of them take hours. The core contains only

* each question once, unless it takes many runs and a cheaper one notices the same defects,
* the elementary checks,
* a check of each rule and of each file of the suite,
* every pair of levels of the options that decide how the cache is used, and with each level
  whether the kernel is a fresh one,
* each case that is needed to notice a recorded defect (seeded ones and CANN's deviations) and to
  see its worst harm that fails a run, so that a hang does not pass for lost work; except where
  a single check notices it and takes many runs for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from pytest_ascendcache.combinations.cell import Cell
from pytest_ascendcache.conformance.costs import is_elementary, runs_of
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.cover import Candidate, candidates_of, noticed_by, smallest

FACTORS = ("cache_mode", "debug_level", "debug_config", "select_implmode")
"""Factors of combinations; the core tries every pair of their levels."""
_MANY = 5.0
"""Questions with more runs than this are asked only for the defects and the harm they notice."""
_DEAR = 10.0
"""A check that takes as many runs for each defect that only it notices is left to the whole suite.

Measured by leaving a sixth of the records out, six times: with these two bounds 690 runs of atc
notice 90 % of what was left out; 765 notice 89 %, spent on every record and questions of at most
two runs."""
_COMBINATIONS = "cache_mode/test_combinations.py::"
_FRESH = f"{_COMBINATIONS}test_kernel_is_a_fresh_one"
"""Costs another run for each combination; what it notices hardly depends on the combination."""


@dataclass(frozen=True)
class Core:
    """The ``chosen`` checks, named below the suite, of so many ``checks``.

    ``known`` is the number of recorded defects that the suite notices, ``noticed`` the number that
    the core notices.
    """

    chosen: frozenset[str]
    checks: int
    known: int
    noticed: int


def core_of(
    rules: Mapping[str, str], capabilities: frozenset[Capability], again: Collection[str] = ()
) -> Core:
    """The core of these checks (named below the suite, with their rules) for a toolchain.

    ``again`` are checks to ask again because of an earlier report. Questions that do not apply to
    the toolchain are in the core once, so that the report mentions them.
    """
    candidates = [_with_its_cell(each) for each in candidates_of(rules, capabilities)]
    kills = matrix.read()
    notices = noticed_by(kills, {each.check for each in candidates}, every_edition=True)
    harm = _worst_harm(kills, notices)
    covers = {
        each.check: notices.get(each.check, frozenset())
        | {*_asks(each), *harm.get(each.check, ())}
        | ({f"{each.check} again"} if each.check in again else frozenset())
        for each in candidates
    }
    worth = candidates
    chosen = smallest(worth, covers)
    while dear := _dear([each for each in worth if each.check in chosen], covers, notices, harm):
        worth = [each for each in worth if each.check not in dear]
        chosen = smallest(worth, covers)
    asked = {_question(each.check) for each in candidates}
    chosen |= {each.check for each in candidates if is_elementary(each.check)}
    unasked: dict[str, str] = {}
    for each in rules:
        if _question(each) not in asked:
            unasked.setdefault(_question(each), each)
    known = frozenset().union(*notices.values())
    return Core(
        chosen | frozenset(unasked.values()),
        len(rules),
        len(known),
        len(frozenset().union(*(notices.get(each, frozenset()) for each in chosen))),
    )


def _dear(
    chosen: Collection[Candidate],
    covers: Mapping[str, frozenset[str]],
    notices: Mapping[str, frozenset[str]],
    harm: Mapping[str, Collection[str]],
) -> frozenset[str]:
    """The chosen checks that cost too much for the defects that only they notice, and are there for
    nothing else."""
    times = Counter(what for each in chosen for what in {*covers[each.check], each.rule})
    found = set[str]()
    for each in chosen:
        alone = {what for what in {*covers[each.check], each.rule} if times[what] == 1}
        defects = alone & notices.get(each.check, frozenset())
        reasons = alone - defects - {*harm.get(each.check, ())}
        if not each.life and not reasons and each.cost >= _DEAR * max(1, len(defects)):
            found.add(each.check)
    return frozenset(found)


def _worst_harm(kills: matrix.Kills, notices: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    """For each check, the defects whose worst harm it sees if that fails a run at any level."""
    found: dict[str, list[str]] = {}
    for defect, records in matrix.by_reason(kills).items():
        harms = {
            each.check: Harm(each.harm) for each in records if each.check in notices and each.harm
        }
        worst = min(harms.values(), key=lambda harm: harm.rank, default=Harm.LOST_WORK)
        if worst.fails:
            for check, harm in harms.items():
                if harm is worst:
                    found.setdefault(check, []).append(f"{worst.value} of {defect}")
    return found


def _question(check: str) -> str:
    """The test function of a check, without its case."""
    return check.partition("[")[0]


def _cell(check: str) -> str:
    """The combination of options that a check is about, or an empty text."""
    function, _, case = check.partition("[")
    return case.removesuffix("]") if function.startswith(_COMBINATIONS) else ""


def _with_its_cell(candidate: Candidate) -> Candidate:
    """The candidate with its runs, which all checks of one combination share."""
    cell = _cell(candidate.check)
    if not cell:
        return candidate
    if _question(candidate.check) == _FRESH:
        return replace(candidate, cost=candidate.cost + runs_of(f"{_COMBINATIONS}test_outcome"))
    return replace(candidate, life=f"{_COMBINATIONS}[{cell}]")


def _asks(candidate: Candidate) -> Iterator[str]:
    """The reasons to choose a check that do not depend on what it notices."""
    yield f"something of {candidate.check.partition('::')[0]}"
    if candidate.cost <= _MANY:
        yield f"the question of {_question(candidate.check)}"
    if cell := _cell(candidate.check):
        levels = Cell.special_in(cell)
        if _question(candidate.check) == _FRESH:
            yield from (f"fresh beside {each}={levels.get(each)}" for each in FACTORS)
            return
        for pair in combinations(FACTORS, 2):
            yield " ".join(f"{each}={levels.get(each)}" for each in pair)
