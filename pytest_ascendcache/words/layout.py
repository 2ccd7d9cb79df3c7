"""Text for a terminal: lines of a width, where a Chinese character takes two columns."""

from __future__ import annotations

import unicodedata

WIDTH = 80
"""Columns of a terminal that nobody has made wider."""


def columns(text: str) -> int:
    """How many columns a text takes."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def wrapped(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """A text in lines of at most ``width`` columns, each ``indent`` columns from the left.

    Lines end at blanks; what has none and is too long is cut where the line is full.
    """
    room, lines, line = width - indent, list[str](), ""
    for word in text.split():
        if line and columns(line) + 1 + columns(word) > room:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while columns(line) > room:
            cut = _fitting(line, room)
            lines.append(line[:cut])
            line = line[cut:]
    return [" " * indent + each for each in (*lines, line) if each]


def _fitting(line: str, room: int) -> int:
    """How many characters of a line fit."""
    taken = 0
    for number, character in enumerate(line):
        taken += columns(character)
        if taken > room:
            return max(number, 1)
    return len(line)
