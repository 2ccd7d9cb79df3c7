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


@dataclass(frozen=True, repr=False)
class Outcome:
    """Where the delivered kernel came from, and the fate of the entry.

    ``assert run[operator].reused`` asks about the kernel, ``.stored``, ``.kept`` and
    ``.rewritten`` about the entry; ``==`` compares both.
    """

    delivered: Delivered
    entry: Fate

    def __str__(self) -> str:
        return f"{self.delivered.value}, entry {self.entry.value}"

    def __repr__(self) -> str:
        return f"<the kernel was {_AS_SENTENCE[self.delivered]} {_AS_SENTENCE[self.entry]}>"

    @property
    def reused(self) -> bool:
        """Whether the kernel was served from the cache."""
        return self.delivered is Delivered.REUSED

    @property
    def compiled(self) -> bool:
        """Whether the kernel was compiled in this run."""
        return self.delivered is Delivered.COMPILED

    @property
    def stored(self) -> bool:
        """Whether the run stored a new entry."""
        return self.entry is Fate.STORED

    @property
    def kept(self) -> bool:
        """Whether the entry lay there before and is unchanged."""
        return self.entry is Fate.KEPT

    @property
    def rewritten(self) -> bool:
        """Whether the run wrote over an entry."""
        return self.entry is Fate.REWRITTEN

    @property
    def removed(self) -> bool:
        """Whether the run removed the entry."""
        return self.entry is Fate.REMOVED

    @property
    def absent(self) -> bool:
        """Whether there was no entry before, nor afterwards."""
        return self.entry is Fate.ABSENT


_AS_SENTENCE: dict[Delivered | Fate, str] = {
    Delivered.COMPILED: "compiled",
    Delivered.REUSED: "reused from the cache",
    Fate.ABSENT: "and there is no entry of it",
    Fate.STORED: "and its entry was stored",
    Fate.KEPT: "and its entry was kept as it was",
    Fate.REWRITTEN: "and its entry was rewritten",
    Fate.REMOVED: "and its entry was removed",
}


COMPILED, REUSED = Delivered.COMPILED, Delivered.REUSED
ABSENT, STORED, KEPT = Fate.ABSENT, Fate.STORED, Fate.KEPT
REWRITTEN, REMOVED = Fate.REWRITTEN, Fate.REMOVED
