"""What happens to the cache of a life between two runs: damage, links, other entries, time."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.caches import Entry
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.conformance.kit.findings import Findings, Question
from pytest_ascendcache.conformance.kit.judge import Known
from pytest_ascendcache.conformance.kit.own_entries import OwnEntries
from pytest_ascendcache.conformance.kit.shelf import HUNDREDS, KILOBYTE, Shelf
from pytest_ascendcache.contract import other_soc
from pytest_ascendcache.faults import Damage
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec

YEAR = 365 * 86400.0
"""Seconds."""
_COPIED_LATER = 10.0
"""Seconds by which an object is younger than its metadata when file times are set."""


@dataclass
class BetweenRuns:
    """Changes the cache of a life. ``guarded`` are directories beside it that no run may change."""

    entries: OwnEntries
    findings: Findings
    guarded: dict[Question, Path] = field(default_factory=dict)

    @property
    def _cache(self) -> CacheUnderTest:
        return self.entries.cache

    @property
    def _chip(self) -> Path:
        return self._cache.layout.soc(self._cache.options.soc)

    def add_user_directories(self) -> None:
        for name in ("a_copy", "mine", "Z-old"):
            inner = self._chip / name / "within"
            inner.mkdir(parents=True)
            (inner / "a_note").write_text("a user's")

    def lay_hundreds(self) -> list[Shelf]:
        """Lay entries nobody asks for: of this chip, another, and one named almost alike."""
        chip = self._cache.options.soc
        shelves = [Shelf(self._cache, each) for each in (chip, other_soc(chip), f"{chip}C")]
        for shelf, names in zip(shelves, (HUNDREDS, "ab", "ab"), strict=True):
            shelf.lay(names, KILOBYTE, *[1.0] * len(names))
        self._cache.leave_alone(shelves[0].entry(name).stem for name in HUNDREDS)
        return shelves

    def link_directories(self, *chips: str) -> None:
        """Put links to directories outside where these chips' directories belong, and one among
        the entries. The files in the linked directories were last used a year ago."""
        outside, chip = self._outside(Question.LINKS), self._chip
        if not chip.is_dir():
            return
        for link in (chip / "te_linked", *(chip.with_name(each) for each in chips)):
            if link.is_symlink() or link.exists():
                continue
            target = outside / link.name
            target.mkdir(parents=True, exist_ok=True)
            stem = f"te_outside_{'0' * 64}"
            for path in (target / f"{stem}.json", target / f"{stem}.o"):
                path.write_bytes(b"of another user")
                os.utime(path, (time.time() - YEAR,) * 2)
            link.symlink_to(target)
        self._guard(Question.LINKS)

    def damage(self, operator: OperatorSpec, damage: Damage) -> None:
        """Damage the entry of an operator, for the chip under test and the default mode."""
        entry, own = self.entries.valid(operator), self.entries.own(operator)
        if entry is not None and own is not None:
            damage.apply(entry)
            own.known = Known.DAMAGED

    def link(self, operator: OperatorSpec, *suffixes: str) -> None:
        """Move files of a valid entry out of the cache and leave links to them."""
        entry = self._leave_open(Question.LINKS, operator)
        if entry is not None:
            for path in (entry.directory / f"{entry.stem}{suffix}" for suffix in suffixes):
                moved = self.guarded[Question.LINKS] / path.name
                path.rename(moved)
                path.symlink_to(moved)

    def point_outside(self, operator: OperatorSpec, *, other: bool = False) -> None:
        """Copy a valid entry out of the cache, and have its metadata name the copy as its object.
        If ``other``, the copy differs from the cached object, and the digest is the copy's."""
        entry = self._leave_open(Question.NAMES, operator)
        if entry is not None:
            outside = self.guarded[Question.NAMES]
            for path in (entry.object_path, entry.metadata_path):
                shutil.copy2(path, outside)
            name = os.path.relpath(outside / entry.stem, entry.directory)
            fields = {**entry.metadata, "binFileName": name}
            if other:
                copy = outside / entry.object_path.name
                data = bytearray(copy.read_bytes())
                data[len(data) // 4] ^= 1
                copy.write_bytes(data)
                fields["sha256"] = sha256(bytes(data))
            entry.metadata_path.write_text(json.dumps(fields))

    def age(
        self,
        *seconds: float,
        oldest: Iterable[OperatorSpec] = (),
        only: Iterable[OperatorSpec] | None = None,
    ) -> None:
        """Set the file times of entries to these seconds from now, in turn; of ``oldest`` to a year
        ago. ``only`` limits this to the entries of some operators."""
        old = self.entries.stems(oldest)
        files = sorted(self._cache.layout.kernel_cache.rglob("te_*"))
        if only is not None:
            chosen = self.entries.stems(only)
            files = [path for path in files if path.stem in chosen]
        for number, path in enumerate(files):
            ago = -YEAR if path.stem in old else seconds[number // 2 % len(seconds)]
            when = time.time() + ago
            # Copying an entry may leave its object younger than its metadata.
            modified = when + _COPIED_LATER if path.suffix == ".o" else when
            os.utime(path, (when, modified), follow_symlinks=False)

    def _leave_open(self, question: Question, operator: OperatorSpec) -> Entry | None:
        """The operator's valid entry, if any, whose later outcomes are not judged."""
        entry, own = self.entries.valid(operator), self.entries.own(operator)
        if entry is None or own is None:
            return None
        self._cache.mark()  # Marking the entry later would write through the link.
        own.known = Known.OPEN
        self._outside(question).mkdir(exist_ok=True)
        self._guard(question)
        return entry

    def _outside(self, question: Question) -> Path:
        return self._cache.sandbox / f"outside_{question.case}"

    def _guard(self, question: Question) -> None:
        self.guarded[question] = self._outside(question)
        self.findings.asked.add(question)
