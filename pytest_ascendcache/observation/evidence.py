"""What a check did and saw, kept for the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


class NotDecidable(Exception):
    """A check cannot tell: what it rests on does not hold. Never a pass."""


@dataclass(frozen=True)
class PositiveControl:
    """What checks may take for granted of a toolchain.

    ``compiles``: a plain compile works; ``serves_marked``: a marked entry is served;
    ``relocates``: also from a copy of the cache. ``reason`` says why not.
    """

    compiles: bool = True
    serves_marked: bool = True
    relocates: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """One process of a check: its command line, how it ended, what it changed.

    ``outcomes`` are "operator: outcome" lines, ``changes`` path -> kind of change.
    """

    command: str
    ending: str
    outcomes: tuple[str, ...]
    changes: dict[str, str]
    output: str


@dataclass
class Evidence:
    """Steps of one check in order; ``expected`` and ``observed`` where a comparison failed.

    ``readings`` name, for rules the document leaves open, what the toolchain chose.
    """

    steps: list[Step] = field(default_factory=list)
    expected: str = ""
    observed: str = ""
    readings: list[str] = field(default_factory=list)
    compiles: int = 0
    starts: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        return asdict(self)
