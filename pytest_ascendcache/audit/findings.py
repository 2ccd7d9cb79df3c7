"""What an audit finds: all counted, a few named, and the files that may be removed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

KEPT = 100
"""Findings of one rule that are kept by name. A cache may have a million files."""


class Check(str, Enum):
    """What is looked for; the values are the ids of the rules."""

    WHOLE_ENTRIES = "audit/whole-entries"
    DIGESTS = "audit/digests"
    WHOLE_OBJECTS = "audit/whole-objects"
    METADATA = "audit/metadata"
    NAMES_INSIDE = "audit/names-inside"
    PLAIN_FILES = "audit/plain-files"
    ONE_OWNER = "audit/one-owner"
    PRIVATE_MODES = "audit/private-modes"
    INI = "audit/ini"
    LEFTOVERS = "audit/leftovers"
    SIZE = "audit/size"
    RANKS_AGREE = "audit/ranks-agree"
    RANK_DUPLICATES = "audit/rank-duplicates"
    ONE_TOOLCHAIN = "audit/one-toolchain"


@dataclass(frozen=True, order=True)
class Finding:
    """One fault: ``path`` below the audited directory, printable; ``bytes`` it concerns."""

    path: str
    detail: str
    bytes: int
    rule: str

    def as_dict(self) -> dict[str, object]:
        """Plain data, for reports."""
        return {"rule": self.rule, "path": self.path, "bytes": self.bytes, "detail": self.detail}


@dataclass
class Found:
    """All findings of one rule: how many, how many bytes, and the first by name."""

    count: int = 0
    bytes: int = 0
    first: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Count a finding; which ones are kept does not depend on the order they come in."""
        self.count += 1
        self.bytes += finding.bytes
        if len(self.first) < KEPT or finding < self.first[-1]:
            insort(self.first, finding)
            del self.first[KEPT:]


@dataclass(frozen=True)
class Removal:
    """Files of one broken entry, or one file nobody needs; raw names below the audited directory.

    All of them have to be what they were, those that were missing included, for any to go.
    """

    rule: str
    reason: str
    paths: tuple[str, ...]


@dataclass
class Ledger:
    """Findings by rule. ``suggest`` is told of each removal as it is found."""

    suggest: Callable[[Removal], None] | None = None
    found: dict[Check, Found] = field(default_factory=dict)

    def add(
        self,
        check: Check,
        path: str,
        detail: str,
        size: int = 0,
        remove: tuple[str, ...] = (),
    ) -> None:
        """Note a fault of ``path``; ``remove`` are the files whose removal mends it."""
        finding = Finding(printable(path), detail, size, check.value)
        self.found.setdefault(check, Found()).add(finding)
        if remove and self.suggest is not None:
            self.suggest(Removal(check.value, f"{finding.path}: {detail}", remove))


def printable(text: str) -> str:
    """A name as one line anybody can read, and any report can be written with."""
    if text.isprintable():
        return text
    escaped = (
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )
    return "".join(escaped)
