"""Aging: which entries go when a SoC's cache has passed its limit.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` section 4.

Access times are the reference's own bookkeeping: a hit sets them, and looking for what may go
takes names and states of files only, never contents. So it does not matter whether the mount
renews access times (relatime, strictatime) or not (noatime).
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
"""Nanoseconds without an access after which an entry may go: half an hour."""

_PARTS = (".json", ".o", ".h")
"""Ends of the names of one entry's files; in this order they are removed."""


@dataclass(frozen=True)
class Seen:
    """One file as the scan saw it; a link is seen itself and has no bytes that count."""

    path: Path
    size: int
    accessed_ns: int


@dataclass(frozen=True)
class Unit:
    """What goes together: an entry with all its files, or a file that belongs to none.

    Paired by name alone, so a half, an entry whose metadata cannot be read and a temporary
    file whose writer has died are units like others, and the cache cannot stay over its limit
    because of them.
    """

    files: tuple[Seen, ...]

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(each.size for each in self.files)

    @property
    def accessed_ns(self) -> int:
        """When any of its files was last accessed, in nanoseconds since the epoch."""
        return max(each.accessed_ns for each in self.files)


class AgingPolicy:
    """Removes what was not used for long, oldest first, once a SoC's cache passes its limit.

    It runs when the cache is opened, before anything is looked up. What a run stores itself is
    never in question, for it is new; so there is nothing to do after stores that the next
    opening does not do, and no compile is held up or refused.
    """

    edition: Played = PRESENT

    def renews(self, limits: Limits) -> bool:
        """Whether a hit notes the access."""
        return not limits.off

    def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
        """Make room in one SoC's directory; what went.

        Under the writers' lock, and only where there is something to do. Not being able to
        remove anything is no error: the limit is a soft one.
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
        """What has to go, in order: nothing below the limit; else the least recently used of
        what is idle, until the retained share of the limit is reached."""
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
        """Whether the cache is over its limit. The document says "exceeds" of the file and
        "reaches" of the variable; this is the first."""
        return size > limits.size

    def is_idle(self, unit: Unit, now_ns: int) -> bool:
        """Whether a unit was not accessed for more than half an hour, where that matters."""
        return not self.edition.idle_ns or now_ns - unit.accessed_ns > self.edition.idle_ns

    def order(self, units: Sequence[Unit]) -> list[Unit]:
        """Least recently used first."""
        return sorted(units, key=lambda unit: (unit.accessed_ns, unit.files[0].path))

    def retained(self, size: int, limits: Limits) -> int:  # noqa: ARG002 - for subclasses
        """Bytes that may stay: the ratio is one of the limit, not of the present ``size``."""
        return limits.size * limits.ratio // 100

    def scan(self, fs: Fs, directory: Path) -> list[Unit]:
        """Everything below a SoC's directory that counts, as units; locks are empty and stay."""
        parts: dict[Path, list[Seen]] = {}
        for seen in self.walk(fs, directory):
            parts.setdefault(self.belongs_to(seen.path), []).append(seen)
        return [
            Unit(tuple(sorted(files, key=lambda seen: _rank(seen.path))))
            for files in parts.values()
        ]

    def belongs_to(self, path: Path) -> Path:
        """What a file is a part of: an entry, named by its stem, or itself."""
        return path.with_suffix("") if path.suffix in _PARTS else path

    def walk(self, fs: Fs, directory: Path) -> Iterator[Seen]:
        """Files below a directory, but for locks; links are not followed."""
        for entry in fs.entries("aging.list", directory):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from self.walk(fs, path)
            elif not path.name.endswith(".lock"):
                try:
                    info = fs.state("aging.stat", path)
                except FileNotFoundError:
                    continue  # gone since the directory was listed
                yield _seen(path, info)

    def is_unused(self, fs: Fs, unit: Unit) -> bool:
        """Whether nobody has used the unit since it was seen: hits do not wait for the lock."""
        try:
            return all(
                _seen(each.path, fs.state("aging.stat", each.path)) == each for each in unit.files
            )
        except FileNotFoundError:
            return False

    def removes(self, fs: Fs, unit: Unit) -> bool:
        """Remove a unit; whether that was allowed. The next one may be, if this one is not."""
        try:
            self.remove(fs, unit)
        except OSError:
            return False
        return True

    def remove(self, fs: Fs, unit: Unit) -> None:
        """Withdraw the metadata, then the rest: at no time is there half an entry that counts."""
        for each in unit.files:
            fs.remove("aging.remove", each.path)


def _seen(path: Path, info: os.stat_result) -> Seen:
    size = info.st_size if stat.S_ISREG(info.st_mode) else 0
    return Seen(path, size, info.st_atime_ns)


def _rank(path: Path) -> tuple[int, str]:
    return (_PARTS.index(path.suffix) if path.suffix in _PARTS else len(_PARTS), path.name)
