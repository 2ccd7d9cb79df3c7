"""Wrapping text for terminals, in two languages."""

from __future__ import annotations

import pytest

from pytest_ascendcache.words.layout import columns, cut, wrapped


@pytest.mark.parametrize(
    ("text", "taken"), [("", 0), ("abc", 3), ("参数", 4), ("é", 1), ("e\u0301", 1)]
)
def test_how_many_columns_a_text_takes(text: str, taken: int) -> None:
    assert columns(text) == taken


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one two three", ["  one two", "  three"]),
        ("a" * 20, ["  " + "a" * 8, "  " + "a" * 8, "  aaaa"]),
        ("参数取值约束", ["  参数取值", "  约束"]),
        ("x 参数取值", ["  x 参数取", "  值"]),
        ("参数取值。约束", ["  参数取", "  值。约束"]),
        ("one，two three", ["  one，two", "  three"]),
    ],
)
def test_lines_fit(text: str, lines: list[str]) -> None:
    assert wrapped(text, 2, 10) == lines
    assert all(columns(line) <= 10 for line in lines)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("abc", "abc"), ("abcdefg", "abcd…"), ("参数取值", "参数…"), ("ab  cdef", "ab…")],
)
def test_what_is_cut_says_so(text: str, kept: str) -> None:
    assert cut(text, 5) == kept
    assert columns(cut(text, 5)) <= 5
