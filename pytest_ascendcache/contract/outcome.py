"""The outcome of one compile: where the kernel came from, and the fate of the cache entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Delivered(str, Enum):
    """Where the delivered kernel came from."""

    COMPILED = "compiled"
    REUSED = "reused"


class Fate(str, Enum):
    """What happened to an entry between two snapshots."""

    ABSENT = "absent"
    STORED = "stored"
    KEPT = "kept"
    REWRITTEN = "rewritten"
    REMOVED = "removed"


class EntryState(str, Enum):
    """The state of the operator's entry before the compile."""

    NONE = "none"
    VALID = "valid"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Outcome:
    """Where the delivered kernel came from, and the fate of the entry."""

    delivered: Delivered
    entry: Fate

    def __str__(self) -> str:
        return f"{self.delivered.value}, entry {self.entry.value}"


COMPILED, REUSED = Delivered.COMPILED, Delivered.REUSED
ABSENT, STORED, KEPT = Fate.ABSENT, Fate.STORED, Fate.KEPT
REWRITTEN, REMOVED = Fate.REWRITTEN, Fate.REMOVED
