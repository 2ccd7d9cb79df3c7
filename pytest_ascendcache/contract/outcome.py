"""What one compile delivered and what became of the operator's cache entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Delivered(str, Enum):
    """Where the delivered kernel came from."""

    COMPILED = "compiled"
    REUSED = "reused"


class Fate(str, Enum):
    """What became of an entry between two looks at the directory."""

    ABSENT = "absent"
    STORED = "stored"
    KEPT = "kept"
    REWRITTEN = "rewritten"
    REMOVED = "removed"


class EntryState(str, Enum):
    """What the directory held for the operator before the compile."""

    NONE = "none"
    VALID = "valid"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Outcome:
    """One row of the central table: what was delivered, and what became of the entry."""

    delivered: Delivered
    entry: Fate

    def __str__(self) -> str:
        return f"{self.delivered.value}, entry {self.entry.value}"


COMPILED, REUSED = Delivered.COMPILED, Delivered.REUSED
ABSENT, STORED, KEPT = Fate.ABSENT, Fate.STORED, Fate.KEPT
REWRITTEN, REMOVED = Fate.REWRITTEN, Fate.REMOVED
