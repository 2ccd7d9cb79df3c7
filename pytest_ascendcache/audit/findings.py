"""What an audit finds: all findings counted, a few named, and the files that may be removed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

KEPT = 100
"""Findings of one rule that are kept by name. A cache may have a million files."""


class Check(str, Enum):
    """What an audit checks; the values are the ids of the rules."""

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
    AGREEMENT = "audit/agreement"
    NOT_EMPTY = "audit/not-empty"


@dataclass(frozen=True, order=True)
class Finding:
    """One fault. ``path`` is printable and relative to the audited directory; ``bytes`` is the
    size of what is at fault."""

    path: str
    detail: str
    bytes: int
    rule: str

    def as_dict(self) -> dict[str, object]:
        """Return plain data for reports."""
        return {"rule": self.rule, "path": self.path, "bytes": self.bytes, "detail": self.detail}


@dataclass
class FindingsOfRule:
    """All findings of one rule: their number, their bytes, and the first ones by path."""

    count: int = 0
    bytes: int = 0
    first: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Count a finding; which ones are kept does not depend on their order."""
        self.count += 1
        self.bytes += finding.bytes
        if len(self.first) < KEPT or finding < self.first[-1]:
            insort(self.first, finding)
            del self.first[KEPT:]


@dataclass(frozen=True)
class Removal:
    """The files of one broken entry, or one useless file, as raw paths in the audited directory, to
    be removed only if all are still as the audit saw them, missing ones included."""

    rule: str
    reason: str
    paths: tuple[str, ...]


@dataclass
class Ledger:
    """Findings by rule. ``suggest`` is called with each removal that mends the cache."""

    suggest: Callable[[Removal], None] | None = None
    found: dict[Check, FindingsOfRule] = field(default_factory=dict)

    def add(
        self, check: Check, path: str, detail: str, size: int = 0, remove: tuple[str, ...] = ()
    ) -> None:
        """Enter a fault of ``path``; removing the files ``remove`` mends it."""
        finding = Finding(printable(path), detail, size, check.value)
        self.found.setdefault(check, FindingsOfRule()).add(finding)
        if remove and self.suggest is not None:
            self.suggest(Removal(check.value, f"{finding.path}: {detail}", remove))


def printable(text: str) -> str:
    """Return a name as one printable line of UTF-8, with everything else escaped."""
    if text.isprintable():
        return text
    escaped = (
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )
    return "".join(escaped)
