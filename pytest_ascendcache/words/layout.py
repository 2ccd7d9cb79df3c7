"""Text layout for a terminal, where a Chinese character takes two columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_CLOSING = "，。；：、！？）》”’"
WIDTH = 80
"""The default width of a terminal in columns."""


def columns(text: str) -> int:
    """The number of columns that a text takes."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def wrapped(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Wrap a text into lines of at most ``width`` columns, indented by ``indent`` columns.

    Lines break at blanks and between Chinese characters, but not before a closing mark. Longer
    words are cut where the line is full.
    """
    room, lines, line = width - indent, list[str](), ""
    for piece in _pieces(text):
        if line.strip() and columns(line + piece.rstrip()) > room:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while columns(line.rstrip()) > room:
            fitting = _fitting(line, room)
            lines.append(line[:fitting])
            line = line[fitting:]
    return [" " * indent + each for each in (*lines, line.rstrip()) if each]


def cut(text: str, width: int) -> str:
    """The text, shortened with an ellipsis if it is wider than ``width`` columns."""
    if columns(text) <= width:
        return text
    return text[: _fitting(text, width - 1)].rstrip() + "…"


def _pieces(text: str) -> Iterator[str]:
    """The parts of a text that are not broken: words and single Chinese characters."""
    for word in text.split():
        piece = ""
        for character in word:
            wide = columns(character) == 2 or (piece and columns(piece[-1]) == 2)
            if piece and wide and character not in _CLOSING:
                yield piece
                piece = ""
            piece += character
        yield piece + " "


def _fitting(line: str, room: int) -> int:
    """The number of characters of a line that fit into ``room`` columns, at least 1."""
    taken = 0
    for number, character in enumerate(line):
        taken += columns(character)
        if taken > room:
            return max(number, 1)
    return len(line)
