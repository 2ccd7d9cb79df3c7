"""What is wrong with a release, in words for its engineer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One finding: what the release has, and what it should have."""

    found: str
    wanted: str

    def __str__(self) -> str:
        return f"observed: {self.found}\nexpected: {self.wanted}"


def story(problems: Sequence[Problem], shown: int = 8) -> str:
    """All of them as a failing check tells them; of many, the first."""
    lines = [str(each) for each in problems[:shown]]
    if len(problems) > shown:
        lines.append(f"and {len(problems) - shown} more")
    return "\n".join(lines)


def names(items: Sequence[str], shown: int = 3) -> str:
    """A few of many names, in one line."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
