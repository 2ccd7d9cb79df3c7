"""The harm of a broken promise, which one function derives from the observations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.evidence import Sighting
from pytest_ascendcache.observation.harm import observed_harm
from pytest_ascendcache.qualification.loading import load_defects


@dataclass
class Watched:
    """A witness with fixed answers."""

    shown: list[Harm] = field(default_factory=list)
    later: Harm | None = None
    asked: bool = False
    reason: str = ""

    def seen(self) -> list[Sighting]:
        return [Sighting(each, "seen") for each in self.shown]

    def afterwards(self) -> Sighting | None:
        self.asked = True
        if self.reason:
            raise NotDecidable(self.reason)
        return None if self.later is None else Sighting(self.later, "later")


def _harm(watched: Watched, message: str = "", comparison: str = "") -> Harm | None:
    evidence = Evidence()
    evidence.ran(watched)
    harm = observed_harm(evidence, message, comparison)
    return None if harm is None else harm.harm


@pytest.mark.parametrize("kind", Harm)
def test_every_kind_has_a_defect_that_shows_it(kind: Harm) -> None:
    assert kind in {each.harm for each in load_defects().values()}


def test_where_nothing_was_run_nothing_was_observed() -> None:
    assert observed_harm(Evidence(), "observed: compiled\nexpected: reused") is None


def test_what_a_check_notes_counts_where_nothing_was_run() -> None:
    evidence = Evidence()
    evidence.saw(Harm.MISPLACED, "a file too many")
    assert observed_harm(evidence, "") == Sighting(Harm.MISPLACED, "a file too many")


def test_the_worst_that_was_seen_counts() -> None:
    assert _harm(Watched([Harm.LOST_WORK, Harm.CRASH], Harm.UNUSABLE)) is Harm.UNUSABLE


@pytest.mark.parametrize("kind", [Harm.WRONG_RESULT, Harm.OUTSIDE_TOUCHED])
def test_no_run_is_made_once_the_worst_is_known(kind: Harm) -> None:
    watched = Watched([kind])
    assert _harm(watched) is kind
    assert not watched.asked


def test_what_cannot_be_told_is_noted_and_not_guessed() -> None:
    evidence = Evidence()
    evidence.ran(Watched(reason="no marks"))
    assert observed_harm(evidence, "observed: compiled\nexpected: reused") is None
    assert evidence.notes == ["not all harm could be determined: no marks"]


@pytest.mark.parametrize(
    ("message", "comparison", "harm"),
    [
        ("observed: compiled, entry kept\nexpected: reused, entry kept", "", Harm.LOST_WORK),
        ("observed: reused, entry kept\nexpected: compiled, entry kept", "", Harm.LOST_WORK),
        ("observed: entry stored\nexpected: entry absent", "", Harm.MISPLACED),
        ("no warning", 'assert "x" in run.output, "no warning"', Harm.MISLEADING),
        ("rank 1 is not named", "assert named(run) == {1}", Harm.MISLEADING),
        ("2 == 1", "assert len(run.result.outputs) == 1", Harm.LOST_WORK),
        ("not Python", "assert (", Harm.LOST_WORK),
    ],
)
def test_a_cache_that_works_is_told_by_the_comparison(
    message: str, comparison: str, harm: Harm
) -> None:
    assert _harm(Watched(), message, comparison) is harm


def test_words_are_no_lost_work_but_a_crash_is_a_crash() -> None:
    words = 'assert "RANK_ID" in run.output'
    assert _harm(Watched(later=Harm.LOST_WORK), comparison=words) is Harm.MISLEADING
    assert _harm(Watched([Harm.CRASH]), comparison=words) is Harm.CRASH


def test_a_package_that_is_installed_and_refused_says_nothing_of_others(
    pytester: pytest.Pytester,
) -> None:
    """The second install of one package fails, but every other package can be installed."""
    result = pytester.runpytest_subprocess(
        *("--ascend-cache", "--ascend-defect=second-install-refused", "-p", "no:cacheprovider"),
        *("--pyargs", "pytest_ascendcache.conformance.static_kernel", "-k", "installing_twice"),
    )
    result.stdout.fnmatch_lines(["warn 1 *static-kernel/install-idempotent*", "harm *lost work*"])


def test_a_promise_is_broken_also_where_no_harm_is_looked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(quick="from pytest_ascendcache.observation import harm\nharm.leave_out()")
    check = f"{PACKAGE}.cache_mode.test_cache_mode::test_enable_stores_a_valid_entry[add]"
    arguments = ("--ascend-cache", "--ascend-defect=stores-nothing", "--ascend-report=report.json")
    pytester.runpytest_subprocess("-p", "quick", *arguments, "--pyargs", check)
    (judged,) = json.loads((pytester.path / "report.json").read_text())["checks"]
    assert (judged["verdict"], judged["harm"]) == ("fail", None)
    assert judged["evidence"]["harm_starts"] == 0
