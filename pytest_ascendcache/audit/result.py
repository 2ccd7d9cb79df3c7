"""What one pass over a directory found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.audit.cann import SocCache
from pytest_ascendcache.audit.findings import Check, Found
from pytest_ascendcache.audit.graphs import GraphCache
from pytest_ascendcache.audit.rank_kernels import AkgKernels, RankKernels
from pytest_ascendcache.audit.reading import Trouble
from pytest_ascendcache.audit.static import InstalledKernels, StaticOutputs
from pytest_ascendcache.caches.recognition import Kind

Judge = SocCache | RankKernels | AkgKernels | GraphCache | StaticOutputs | InstalledKernels


@dataclass
class Audit:
    """What one directory was found to be.

    ``notes`` are told whatever the verdict, ``inapplicable`` says why a rule has nothing to judge
    here. ``unlisted`` are directories and ``unread`` files that could not be read; ``changed``
    says what other processes wrote meanwhile. ``renewed`` access times could not be kept.
    """

    directory: Path
    units: dict[str, Judge] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    ranks: list[str] = field(default_factory=list)
    found: Mapping[Check, Found] = field(default_factory=dict)
    notes: dict[Check, list[str]] = field(default_factory=dict)
    inapplicable: dict[Check, str] = field(default_factory=dict)
    unlisted: Trouble = field(default_factory=Trouble)
    unread: Trouble = field(default_factory=Trouble)
    changed: Trouble = field(default_factory=Trouble)
    files: int = 0
    bytes: int = 0
    renewed: int = 0

    @property
    def entries(self) -> int:
        """Entries of all caches."""
        return sum(judge.entries for judge in self.units.values())

    def describe(self) -> str:
        """What was looked at, in a line."""
        kinds = Counter(kind.value for kind in self.kinds.values())
        what = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        return f"{what}; {self.entries} entries, {self.files} files"
