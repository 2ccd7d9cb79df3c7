"""What is wrong with a release, in words for its engineer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

_Given = ParamSpec("_Given")


@dataclass(frozen=True)
class Problem:
    """One problem: what was observed in the release, and what is expected."""

    found: str
    wanted: str

    def __str__(self) -> str:
        return f"observed: {self.found}\nexpected: {self.wanted}"


def listed(reports: Callable[_Given, Iterator[Problem]]) -> Callable[_Given, list[Problem]]:
    """Let a function that yields problems return all of them."""

    @wraps(reports)
    def every(*args: _Given.args, **kwargs: _Given.kwargs) -> list[Problem]:
        return [*reports(*args, **kwargs)]

    return every


def story(problems: Sequence[Problem], shown: int = 8) -> str:
    """Return the first problems as the message of a failing check."""
    lines = [str(each) for each in problems[:shown]]
    if len(problems) > shown:
        lines.append(f"and {len(problems) - shown} more")
    return "\n".join(lines)


def names(items: Sequence[str], shown: int = 3) -> str:
    """Return the first few names in one line."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
