"""The harm of a broken promise, which one function derives from the observations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.contract import Outcome
from pytest_ascendcache.contract.facts import (
    Aspect,
    Delivery,
    Ending,
    Fact,
    Later,
    Place,
    Words,
    outcome_fact,
)
from pytest_ascendcache.contract.harm import Harm, harm_in
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
)
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.harm import observed_harm
from pytest_ascendcache.qualification.loading import load_defects

SHOWING = {
    Harm.WRONG_RESULT: Delivery.ANOTHER,
    Harm.OUTSIDE_TOUCHED: Place.TOUCHED,
    Harm.UNUSABLE: Later.FAILS,
    Harm.HANG: Ending.NO_END,
    Harm.CRASH: Ending.CRASH,
    Harm.STALE: Delivery.STALE,
    Harm.LOST_WORK: Later.LACKS,
    Harm.MISPLACED: Place.MISPLACED,
    Harm.MISLEADING: Words.MISSING,
}
"""An observation that shows each kind of harm."""
CLAIM = Fact.of(Aspect.CLAIM, "run.changes == {}")


def _fact(harm: Harm) -> Fact:
    return Fact.seen(SHOWING[harm], "seen") if harm in SHOWING else CLAIM


@dataclass
class Watched:
    """A witness with fixed answers."""

    shown: list[Harm] = field(default_factory=list)
    later: Harm | None = None
    asked: bool = False
    reason: str = ""

    def seen(self) -> list[Fact]:
        return list(map(_fact, self.shown))

    def afterwards(self) -> Fact | None:
        self.asked = True
        if self.reason:
            raise NotDecidable(self.reason)
        return None if self.later is None else _fact(self.later)


def _harm(watched: Watched, *own: Fact) -> Harm | None:
    evidence = Evidence(facts=list(own))
    evidence.ran(watched)
    fact = observed_harm(evidence)
    return None if fact is None else harm_in(fact)


@pytest.mark.parametrize("kind", SHOWING)
def test_every_kind_has_a_defect_that_shows_it(kind: Harm) -> None:
    assert kind in {each.harm for each in load_defects().values()}


@pytest.mark.parametrize("kind", SHOWING)
def test_an_observation_shows_its_harm(kind: Harm) -> None:
    assert harm_in(_fact(kind)) is kind


def test_where_nothing_was_run_nothing_was_observed() -> None:
    assert observed_harm(Evidence(facts=[CLAIM])) is None


def test_what_a_check_notes_counts_where_nothing_was_run() -> None:
    evidence = Evidence()
    evidence.saw(Place.MISPLACED, "a file too many")
    assert observed_harm(evidence) == Fact.seen(Place.MISPLACED, "a file too many")


def test_the_worst_that_was_seen_counts() -> None:
    assert _harm(Watched([Harm.LOST_WORK, Harm.CRASH], Harm.UNUSABLE)) is Harm.UNUSABLE


@pytest.mark.parametrize("kind", [Harm.WRONG_RESULT, Harm.OUTSIDE_TOUCHED])
def test_no_run_is_made_once_the_worst_is_known(kind: Harm) -> None:
    watched = Watched([kind])
    assert _harm(watched) is kind
    assert not watched.asked


def test_what_cannot_be_told_is_noted_and_not_guessed() -> None:
    evidence = Evidence(facts=[CLAIM])
    evidence.ran(Watched(reason="no marks"))
    assert observed_harm(evidence) == CLAIM
    assert evidence.notes == ["not all harm could be determined: no marks"]


COMPILED_KEPT, REUSED_KEPT = Outcome(COMPILED, KEPT), Outcome(REUSED, KEPT)


@pytest.mark.parametrize(
    ("fact", "harm"),
    [
        (outcome_fact(COMPILED_KEPT, [REUSED_KEPT]), Harm.LOST_WORK),
        (outcome_fact(REUSED_KEPT, [COMPILED_KEPT]), Harm.STALE),
        (outcome_fact(REUSED, [COMPILED]), Harm.STALE),
        (outcome_fact(REUSED_KEPT, [COMPILED_KEPT, REUSED_KEPT]), Harm.NOT_DETERMINED),
        (outcome_fact(COMPILED_KEPT, [Outcome(COMPILED, REWRITTEN)]), Harm.MISPLACED),
        (outcome_fact(Outcome(COMPILED, ABSENT), [Outcome(COMPILED, STORED)]), Harm.LOST_WORK),
        (outcome_fact(STORED, [ABSENT]), Harm.MISPLACED),
        (outcome_fact(REMOVED, [KEPT]), Harm.LOST_WORK),
        (Fact.seen(Words.MISSING, ""), Harm.MISLEADING),
        (Fact.of(Aspect.ENDING, Ending.SUCCESS, [Ending.REFUSAL]), Harm.MISLEADING),
        (CLAIM, Harm.NOT_DETERMINED),
    ],
    ids=lambda each: each.code if isinstance(each, Fact) else each.name,
)
def test_the_harm_of_a_cache_that_works_is_that_of_the_checks_fact(fact: Fact, harm: Harm) -> None:
    assert _harm(Watched(), fact) is harm


def test_lesser_harm_of_runs_counts_where_the_check_does_not_tell() -> None:
    words = Fact.seen(Words.MISSING, "no warning")
    assert _harm(Watched(later=Harm.LOST_WORK), words) is Harm.MISLEADING
    assert _harm(Watched(later=Harm.LOST_WORK), CLAIM) is Harm.LOST_WORK
    assert _harm(Watched([Harm.CRASH]), words) is Harm.CRASH


def test_a_package_that_is_installed_and_refused_says_nothing_of_others(
    pytester: pytest.Pytester,
) -> None:
    """A package that is half installed cannot be installed, but every other one can."""
    result = pytester.runpytest_subprocess(
        *("--ascend-cache", "--ascend-defect=second-install-refused", "-p", "no:cacheprovider"),
        *(
            "--pyargs",
            "pytest_ascendcache.conformance.static_kernel",
            "-k",
            "crash_is_repaired and not uninstall",
        ),
    )
    result.stdout.fnmatch_lines(["warn 1 *static-kernel/install-idempotent*", "broken *lost work*"])


def test_a_promise_is_broken_also_where_no_harm_is_looked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(quick="from pytest_ascendcache.observation import harm\nharm.leave_out()")
    check = f"{PACKAGE}.cache_mode.test_cache_mode::test_enable_stores_a_valid_entry[add]"
    arguments = ("--ascend-cache", "--ascend-defect=stores-nothing", "--ascend-report=report.json")
    pytester.runpytest_subprocess("-p", "quick", *arguments, "--pyargs", check)
    (judged,) = json.loads((pytester.path / "report.json").read_text())["checks"]
    assert (judged["verdict"], judged["harm"]) == ("fail", None)
    assert judged["evidence"]["harm_starts"] == 0
