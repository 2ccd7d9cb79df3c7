"""The suite's texts combine oddities; after a failure, the suite tries each oddity alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.conformance.impl_mode import test_texts as files
from pytest_ascendcache.conformance.kit.texts import ODDITIES, PLAIN, TOGETHER, Spelling, texts


def odd(spelling: Spelling) -> set[tuple[str, object]]:
    """Return the fields in which a spelling differs from the plain one, with their values."""
    values = {each.name: getattr(spelling, each.name) for each in fields(Spelling)}
    return {(name, value) for name, value in values.items() if value != getattr(PLAIN, name)}


def test_each_oddity_is_in_two_texts_which_no_other_shares() -> None:
    alone = set().union(*map(odd, ODDITIES))
    places = {
        each: {number for number, text in enumerate(TOGETHER) if each in odd(text)}
        for each in alone
    }
    assert set().union(*map(odd, TOGETHER)) == alone
    assert {len(found) for found in places.values()} == {2}
    assert [pair for pair in combinations(alone, 2) if places[pair[0]] == places[pair[1]]] == []
    # Oddities that only count together with another one also occur, together with it.
    assert all(any(odd(each) <= odd(text) for text in TOGETHER) for each in ODDITIES)


def test_ends_and_marks_are_odd_in_files_with_a_section_and_without() -> None:
    texts = files._ODD_FILES
    for is_odd in (lambda text: text.startswith("\ufeff"), lambda text: "\r\n" in text):
        has_section = {"[ByOpType]" in text for text in texts if is_odd(text)}
        assert has_section == {True, False}


@pytest.fixture
def trying() -> tuple[Callable[[str], None], list[str]]:
    """A check that fails for texts that contain ``misread``, and the list of texts it has tried."""
    tried: list[str] = []

    @texts(2, [{"text": "b"}, {"text": "ab"}], alone=[{"text": "a"}, {"text": "b"}])
    @given(text=st.just("c"))
    def check(misread: str, text: str) -> None:
        tried.append(text)
        assert misread not in text, f"{text} is misread"

    return check, tried


def test_texts_alone_are_tried_only_where_one_of_several_oddities_is_misread(trying) -> None:
    check, tried = trying
    check(misread="x")
    assert tried == ["b", "ab", "c"]


def test_the_text_that_is_odd_in_one_way_is_named(trying) -> None:
    check, tried = trying
    with pytest.raises(AssertionError) as raised:
        check(misread="a")
    assert str(raised.value) == "a is misread"
    assert tried == ["b", "ab", "a", "b", "c"]


def test_texts_that_are_misread_only_together_are_told(trying) -> None:
    check, _ = trying
    with pytest.raises(AssertionError) as raised:
        check(misread="ab")
    assert str(raised.value) == "ab is misread"
