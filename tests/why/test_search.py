"""The search among differences: smallest sets, in few tries."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.why.study import bound, smallest


@given(st.integers(1, 64).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_what_is_needed_is_found_within_the_bound(drawn: tuple[int, set[int]]) -> None:
    count, needed = drawn
    tried = []

    def reaches(some: Sequence[int]) -> bool:
        tried.append(frozenset(some))
        return needed <= {*some}

    assert smallest(range(count), reaches) == sorted(needed)
    assert len({*tried}) <= bound(count, max(len(needed), 1))


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1))
def test_of_several_ways_one_is_found_that_has_nothing_to_spare(ways: list[set[int]]) -> None:
    def reaches(some: Sequence[int]) -> bool:
        return any(way <= {*some} for way in ways)

    found = smallest(range(10), reaches)
    assert reaches(found)
    assert not any(reaches([each for each in found if each != one]) for one in found)
