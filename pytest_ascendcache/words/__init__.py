"""Wording that several rooms share: counts, suggestions for a mistyped name, command lines."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

_SHOWN = 8
"""The most names that a sentence lists."""


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 rule``, ``2 rules``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar to ``name``, or ``""``.

    Names are similar if they differ only in case, in the order of letters or in few letters, or if
    ``name`` is the last part of the known one.
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
    """A suggestion to write instead of an unknown name: the nearest one, or all of a few.

    ``where`` is the sentence to use if there are too many names to list them.
    """
    names = list(known)
    if near := nearest(name, names):
        return f"did you mean '{near}'?"
    if not names:
        return "there are none."
    if len(names) <= _SHOWN:
        return f"use {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}."
    return where or f"use one of {', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more."


def in_unicode(value: Any) -> Any:
    """Plain data whose texts can be sent and written: bytes of file names that are no text become
    backslash escapes."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {in_unicode(key): in_unicode(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(in_unicode(each) for each in value)
    return value


@cache
def pytest_command() -> tuple[str, ...]:
    """The command that starts pytest with the running interpreter, for users to paste.

    It is ``pytest`` if PATH finds the one of this interpreter's environment, else
    ``/path/to/python -m pytest``.
    """
    on_path = shutil.which("pytest")
    ours = Path(sys.executable).with_name("pytest")
    if on_path is not None and ours.exists() and Path(on_path).samefile(ours):
        return ("pytest",)
    return (sys.executable, "-m", "pytest")
