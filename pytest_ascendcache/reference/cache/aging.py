"""Aging: which entries are removed when a SoC's cache exceeds its limit.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` section 4.

The reference keeps access times itself: a hit sets them, and the scan only lists and stats files,
it never reads them. Therefore the mount's own access-time policy (relatime, strictatime, noatime)
does not matter.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.reference.cache.entry import LOCK_NAME
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.cache.limits import Limits
from pytest_ascendcache.reference.edition import HALF_AN_HOUR_NS, PRESENT, Played

IDLE_NS = HALF_AN_HOUR_NS
"""Nanoseconds without an access after which an entry may be removed: half an hour."""

_PARTS = (".json", ".o", ".h")
"""Suffixes of an entry's files, in the order in which they are removed."""


@dataclass(frozen=True)
class SeenUnit:
    """The state of one file during the scan. A symbolic link is not followed and counts 0 bytes."""

    path: Path
    size: int
    accessed_ns: int


@dataclass(frozen=True)
class Unit:
    """The files that age together: all files of one entry, or a single file of no entry.

    Files are grouped by name only. Half an entry, an entry with unreadable metadata and the
    temporary file of a dead writer are units too, so they cannot keep the cache over its limit.
    """

    files: tuple[SeenUnit, ...]

    @property
    def size(self) -> int:
        """The total size of its files in bytes."""
        return sum(each.size for each in self.files)

    @property
    def accessed_ns(self) -> int:
        """The latest access time of its files, in nanoseconds since the epoch."""
        return max(each.accessed_ns for each in self.files)


class AgingPolicy:
    """Removes idle entries, least recently used first, once a SoC's cache exceeds its limit.

    Aging runs when the cache is opened, before the first lookup. It need not run after a store:
    new entries are not idle, and the next run ages the cache when it opens it. So aging never
    delays or refuses a compile.
    """

    edition: Played = PRESENT

    def renews(self, limits: Limits) -> bool:
        """Whether a hit updates the entry's access times."""
        return not limits.off

    def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
        """Age one SoC's directory. Returns the units that were removed.

        Takes the writers' lock, but only if something has to be removed. A failure to remove is
        not an error, because the limit is soft.
        """
        gone: list[Unit] = []
        try:
            if limits.off or not self.choose(self.scan(fs, directory), limits, now_ns):
                return gone
            with fs.lock("aging.lock", directory / LOCK_NAME):
                for unit in self.choose(self.scan(fs, directory), limits, now_ns):
                    if self.is_unused(fs, unit) and self.removes(fs, unit):
                        gone.append(unit)
        except (OSError, LockUnavailable):
            return gone
        return gone

    def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
        """The units to remove, in order of removal.

        Empty unless the cache exceeds its limit; otherwise the least recently used idle units,
        until the rest fits into the retained share of the limit.
        """
        size = sum(unit.size for unit in units)
        if not self.is_passed(size, limits):
            return []
        chosen: list[Unit] = []
        for unit in self.order(units):
            if size <= self.retained(size, limits):
                break
            if self.is_idle(unit, now_ns) and unit.size:
                chosen.append(unit)
                size -= unit.size
        return chosen

    def is_passed(self, size: int, limits: Limits) -> bool:
        """Whether the cache exceeds its limit.

        The document says "exceeds" where it describes ``op_cache.ini`` and "reaches" where it
        describes the environment variable. The reference implements "exceeds".
        """
        return size > limits.size

    def is_idle(self, unit: Unit, now_ns: int) -> bool:
        """Whether the unit's last access is more than half an hour ago.

        Always true for an edition of the document that has no idle time.
        """
        return not self.edition.idle_ns or now_ns - unit.accessed_ns > self.edition.idle_ns

    def order(self, units: Sequence[Unit]) -> list[Unit]:
        """The units, least recently used first."""
        return sorted(units, key=lambda unit: (unit.accessed_ns, unit.files[0].path))

    def retained(self, size: int, limits: Limits) -> int:  # noqa: ARG002 - for subclasses
        """Bytes to retain. The ratio applies to the limit, not to the current ``size``."""
        return limits.size * limits.ratio // 100

    def scan(self, fs: Fs, directory: Path) -> list[Unit]:
        """The units below a SoC's directory. Lock files are empty and are never removed."""
        parts: dict[Path, list[SeenUnit]] = {}
        for seen in self.walk(fs, directory):
            parts.setdefault(self.belongs_to(seen.path), []).append(seen)
        return [
            Unit(tuple(sorted(files, key=lambda seen: _rank(seen.path))))
            for files in parts.values()
        ]

    def belongs_to(self, path: Path) -> Path:
        """The key that groups files into units: the entry's stem, or the path of a lone file."""
        return path.with_suffix("") if path.suffix in _PARTS else path

    def walk(self, fs: Fs, directory: Path) -> Iterator[SeenUnit]:
        """The files below a directory except lock files. Symbolic links are not followed."""
        for entry in fs.entries("aging.list", directory):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from self.walk(fs, path)
            elif not path.name.endswith(".lock"):
                try:
                    info = fs.state("aging.stat", path)
                except FileNotFoundError:
                    continue  # removed since the directory was listed
                yield _seen(path, info)

    def is_unused(self, fs: Fs, unit: Unit) -> bool:
        """Whether the unit is unchanged since the scan. Hits do not wait for the writers' lock."""
        try:
            return all(
                _seen(each.path, fs.state("aging.stat", each.path)) == each for each in unit.files
            )
        except FileNotFoundError:
            return False

    def removes(self, fs: Fs, unit: Unit) -> bool:
        """Remove a unit. Returns False if that fails; later units may still be removable."""
        try:
            self.remove(fs, unit)
        except OSError:
            return False
        return True

    def remove(self, fs: Fs, unit: Unit) -> None:
        """Remove the metadata first, so that no partly removed entry is ever valid."""
        for each in unit.files:
            fs.remove("aging.remove", each.path)


def _seen(path: Path, info: os.stat_result) -> SeenUnit:
    size = info.st_size if stat.S_ISREG(info.st_mode) else 0
    return SeenUnit(path, size, info.st_atime_ns)


def _rank(path: Path) -> tuple[int, str]:
    return (_PARTS.index(path.suffix) if path.suffix in _PARTS else len(_PARTS), path.name)
