"""What several rooms say in the same words: counts, names that are nearly right, commands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pytest_ascendcache.words.commands import pytest_command

__all__ = ["count", "instead", "nearest", "pytest_command"]

_SHOWN = 8
"""Names a sentence still reads well with."""


def count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: ``1 rule``, ``2 rules``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like ``name``; empty where none is like it.

    A name that differs in case or in the order of its letters only, or that is the last part of a
    known one, is like it.
    """
    names = list(known)
    folded = {each.casefold(): each for each in reversed(names)}
    if same := folded.get(name.casefold()):
        return same
    letters = sorted(name.casefold())
    if swapped := [each for each in names if sorted(each.casefold()) == letters]:
        return swapped[0]
    ends = [each for each in names if each.casefold().rpartition("/")[2] == name.casefold()]
    if len(ends) == 1:
        return ends[0]
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else ""


def instead(name: str, known: Iterable[str], where: str = "") -> str:
    """What to write instead of a name that is not known: the nearest, or all of a few.

    ``where`` says how to see the names when there are too many for a sentence.
    """
    names = list(known)
    if near := nearest(name, names):
        return f"did you mean '{near}'?"
    if not names:
        return "there are none."
    if len(names) <= _SHOWN:
        return f"use {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}."
    return where or f"use one of {', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more."
