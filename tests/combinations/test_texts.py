"""The suite's generated texts: each failure is told, the written ones first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.conformance.kit.texts import Refused, texts


@pytest.fixture
def trying() -> tuple[Callable[[str], None], list[str]]:
    """A check that fails for texts that contain ``misread``, and the list of texts it has tried."""
    tried: list[str] = []

    @texts(2, [{"text": "b"}, {"text": "ab"}])
    @given(text=st.just("c"))
    def check(misread: str, text: str) -> None:
        tried.append(text)
        assert misread not in text, f"{text} is misread"

    return check, tried


def test_written_texts_are_tried_before_generated_ones(trying) -> None:
    check, tried = trying
    check(misread="x")
    assert tried == ["b", "ab", "c"]


def test_the_text_that_is_misread_is_named(trying) -> None:
    check, tried = trying
    with pytest.raises(AssertionError) as raised:
        check(misread="a")
    assert str(raised.value) == "ab is misread"
    assert tried == ["b", "ab", "c"]


def test_what_fails_only_the_first_time_has_failed() -> None:
    """The texts share a cache, which the first round has changed when a text is shrunk."""
    left = [True, True]

    @texts(2)
    @given(text=st.sampled_from(["c", "d"]))
    def check(text: str) -> None:
        assert not left or not left.pop(), f"{text} is misread"

    with pytest.raises(AssertionError, match="is misread"):
        check()


@pytest.mark.parametrize("refused", ["b", "abc"])
def test_a_refused_text_is_no_verdict_only_if_all_are(refused: str) -> None:
    @texts(2, [{"text": "a"}, {"text": "b"}])
    @given(text=st.just("c"))
    def check(text: str) -> None:
        if text in refused:
            raise Refused("an odd file or value is refused by name")

    if refused == "b":
        check()
    else:
        with pytest.raises(Refused, match="refused by name"):
            check()
