"""Widths on a terminal, where a Chinese character takes two columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_NO_LINE_START = "，。；：、！？）》”’"


def columns(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text if it fits, else its beginning and an ellipsis."""
    if columns(text) <= width:
        return text
    kept = ""
    for character in text:
        if columns(kept) + _columns(character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns.

    Words are kept whole unless one is longer than a line; between Chinese characters a line may
    end anywhere, except before a closing mark.
    """
    lines: list[str] = []
    line = ""
    for piece in _pieces(text):
        if columns(line + piece.rstrip()) <= width:
            line += piece
            continue
        if line.strip():
            lines.append(line.rstrip())
        line = piece.lstrip()
        while columns(line) > width:
            head = _head(line, width)
            lines.append(head)
            line = line[len(head) :]
    if line.strip():
        lines.append(line.rstrip())
    return lines


def _head(text: str, width: int) -> str:
    taken, used = 0, 0
    while taken < len(text) and used + _columns(text[taken]) <= width:
        used += _columns(text[taken])
        taken += 1
    return text[: max(1, taken)]


def _pieces(text: str) -> Iterator[str]:
    """Parts a line may end after: words with the space behind them, single wide characters."""
    piece = ""
    for number, character in enumerate(text):
        piece += character
        following = text[number + 1 : number + 2]
        ends = character.isspace() or _columns(character) == 2 or _columns(following or " ") == 2
        if ends and following and following not in _NO_LINE_START and not following.isspace():
            yield piece
            piece = ""
    if piece:
        yield piece
