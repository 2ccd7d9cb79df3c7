"""The choice of checks for a budget."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.qualification.cover import Candidate, cover, noticed_by
from pytest_ascendcache.qualification.matrix import VENDOR, Kill

COSTS = st.floats(0.5, 9.0)
CHECKS = st.lists(
    st.tuples(COSTS, st.sampled_from("rst"), st.frozensets(st.integers(0, 9).map(str))),
    max_size=12,
)


def test_the_check_that_notices_most_for_its_cost_comes_first() -> None:
    candidates = [Candidate("costly", "r", 6.0), Candidate("cheap", "r", 2.0)]
    notices = {"costly": frozenset("abc"), "cheap": frozenset("ab")}
    coverage = cover(candidates, notices, 9.0)
    assert coverage.chosen == ("cheap", "costly")
    assert (coverage.noticed, coverage.known, coverage.share) == (3, 3, 1.0)


def test_a_noticed_defect_counts_less_again() -> None:
    candidates = [Candidate(name, "r", 1.0) for name in ("both", "same", "other")]
    notices = {"both": frozenset("ab"), "same": frozenset("ab"), "other": frozenset("c")}
    assert cover(candidates, notices, 2.0).chosen == ("both", "other")


def test_a_defect_that_is_noticed_another_way_counts_more_than_a_check_that_notices_nothing() -> (
    None
):
    """A defect that nobody knows is like a known one, and may slip through one of two checks."""
    candidates = [Candidate(name, "r", 1.0) for name in ("nothing", "one", "way", "other")]
    notices = {"one": frozenset("ab"), "way": frozenset("a"), "other": frozenset("b")}
    assert set(cover(candidates, notices, 3.0).chosen) == {"one", "way", "other"}


def test_dear_elementary_checks_have_to_earn_their_place() -> None:
    cheap = "cache_mode/test_cache_mode.py::test_enable_stores_a_valid_entry[add]"
    dear = "static_kernel/test_static_kernel_packages.py::test_packages_of_the_same_second_do_not_"
    dear += "replace_each_other"
    candidates = [Candidate(cheap, "r", 2.0), Candidate(dear, "r", 8.0), Candidate("one", "r", 8.0)]
    notices = {"one": frozenset("ab"), dear: frozenset("a")}
    assert cover(candidates, notices, 10.0).chosen == (cheap, "one")
    seconds = [replace(each, cost=each.cost * 9.0) for each in candidates]
    assert cover(seconds, notices, 90.0, per_run=9.0).chosen == (cheap, "one")


def test_a_rule_without_a_check_comes_before_a_second_check_of_another() -> None:
    candidates = [Candidate("a1", "a", 1.0), Candidate("a2", "a", 1.0), Candidate("b1", "b", 2.0)]
    assert cover(candidates, {}, 3.0).chosen == ("a1", "b1")
    assert cover(candidates, {}, 1.0).silent == ("b",)


def test_one_check_of_each_rule_is_put_first() -> None:
    candidates = [Candidate(name, name[0], 1.0) for name in ("a1", "a2", "b1", "b2", "c1", "c2")]
    notices = {"c1": frozenset("xyz"), "a2": frozenset("v"), "b1": frozenset("w")}
    coverage = cover(candidates, notices, 4.0, {"a1", "a2", "b2"})
    # Of a1 and a2, only a2 notices something.
    assert coverage.ahead == ("a2", "b2")
    assert coverage.chosen == ("a2", "b2", "c1", "b1")


def test_checks_that_are_put_first_take_half_of_the_limit() -> None:
    candidates = [Candidate(str(n), str(n), 1.0) for n in range(10)]
    notices = {"9": frozenset("xyz")}
    coverage = cover(candidates, notices, 4.0, [str(n) for n in range(9)])
    assert len(coverage.ahead) == 2
    assert coverage.chosen[2] == "9"
    assert len(coverage.chosen) == 4


def test_a_check_that_is_put_first_stays_even_if_it_adds_nothing() -> None:
    candidates = [Candidate("same", "r", 1.0), Candidate("more", "r", 1.0)]
    notices = {"same": frozenset("a"), "more": frozenset("ab")}
    assert cover(candidates, notices, 2.0, {"same"}).chosen == ("same", "more")


@given(CHECKS, st.floats(0.0, 40.0), st.frozensets(st.integers(0, 11).map(str)))
def test_a_budget_is_kept_and_used(
    made: list[tuple[float, str, frozenset[str]]], limit: float, first: frozenset[str]
) -> None:
    candidates = [Candidate(str(n), rule, cost) for n, (cost, rule, _) in enumerate(made)]
    notices = {str(n): defects for n, (_, _, defects) in enumerate(made)}
    coverage = cover(candidates, notices, limit, first)
    assert {*coverage.ahead} <= first & {*coverage.chosen}
    costs = {each.check: each.cost for each in candidates}
    assert coverage.cost <= limit
    assert abs(coverage.cost - sum(costs[each] for each in coverage.chosen)) < 1e-6
    left = [each for each in candidates if each.check not in coverage.chosen]
    assert all(coverage.cost + each.cost > limit for each in left)
    assert len({*coverage.chosen}) == len(coverage.chosen)
    noticed = (
        frozenset().union(*(notices[each] for each in coverage.chosen)) if coverage.chosen else ()
    )
    assert coverage.noticed == len(noticed) <= coverage.known


def test_records_of_other_editions_do_not_count() -> None:
    kills = {
        "one": (Kill(1, "x", "r", "", ""),),
        "one (CANN 7.0)": (Kill(1, "y", "r", "", ""),),
    }
    assert noticed_by(kills, {"x", "y"}) == {"x": frozenset({"one"})}


def test_entries_of_one_reason_are_one_deviation() -> None:
    reasons = {each.origin: each.reason for each in load_deviations("cann")}
    first, *others = reasons
    same = next(each for each in others if reasons[each] == reasons[first])
    other = next(each for each in others if reasons[each] != reasons[first])
    shown = {"x": first, "y": same, "z": other, "gone": other}
    kills = {
        f"{VENDOR}{entry}": tuple(
            Kill(1, check, "r", "", "") for check, shows in shown.items() if shows == entry
        )
        for entry in shown.values()
    }
    noticed = noticed_by(kills, {"x", "y", "z"})
    assert noticed["x"] == noticed["y"] != noticed["z"]
    assert {len(each) for each in noticed.values()} == {1}
    assert "gone" not in noticed


def test_the_next_check_always_adds_the_most_for_its_cost() -> None:
    chance = random.Random(5)
    candidates = [
        Candidate(f"check{number}", f"rule{number % 7}", chance.randint(1, 9))
        for number in range(60)
    ]
    notices = {
        each.check: frozenset(f"defect{chance.randrange(40)}" for _ in range(chance.randrange(6)))
        for each in candidates
    }
    costs = {each.check: each.cost for each in candidates}
    rules = {each.check: each.rule for each in candidates}
    chosen = cover(candidates, notices, 90.0).chosen
    assert 10 < len(chosen) < len(candidates)
    missed = Counter[str]()
    judged: set[str] = set()
    for number, first in enumerate(chosen):
        gains = {
            each: (sum(0.4 ** missed[one] for one in notices[each]) * 0.6 + 0.3 * new) / costs[each]
            for each in chosen[number:]
            for new in [rules[each] not in judged]
        }
        assert gains[first] == pytest.approx(max(gains.values())), first
        missed.update(notices[first])
        judged.add(rules[first])
