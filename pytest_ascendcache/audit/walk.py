"""Walks a tree and recognises the caches in it. Names are streamed, never gathered."""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.audit.account import is_kept_by_hand
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Folder, Reader
from pytest_ascendcache.caches.recognition import CacheKind, CachePlace, recognise

_PEEK = 256
"""How many names decide what a directory is if its own name does not."""

_DEEPEST = 64
"""How many levels below a directory that is no cache are searched for caches."""

_LOOKED_INTO = 3
_SMALL = 1 << 16
"""So many JSON files of so many bytes are read to see whether they name objects."""


class Stopped(Exception):
    """The search ended before its end, for the reason given."""


@dataclass
class WalkWatch:
    """Ends a search after ``seconds``, and tells how far it is: ``progress`` is called with the
    number of names about twice a second."""

    seconds: float | None = None
    progress: Callable[[int], None] | None = None
    names: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)

    def tick(self) -> None:
        """Count 64 names. Raises ``Stopped`` once the time is over."""
        self.names += 64
        now = time.monotonic()
        if self.seconds is not None and now - self._begun > self.seconds:
            raise Stopped(f"the time of {self.seconds:g} s is over")
        if self.progress is not None and now - self._told > 0.5 and now - self._begun > 2:
            self._told = now
            self.progress(self.names)


@dataclass(frozen=True)
class Visit:
    """One directory: what it is, and what is in it. Call ``enter`` with the name of each
    directory among the ``entries``."""

    place: CachePlace | None
    folder: Folder
    entries: Iterator[os.DirEntry[str]]
    enter: Callable[[str], None]


@dataclass
class Walk:
    """Visits a directory and all directories below it.

    ``failed`` is called with directories that cannot be read, ``changed`` with those that were
    written meanwhile, ``too_deep`` with those that are not searched. Use each :class:`Visit` before
    asking for the next one.
    """

    root: Path
    reader: Reader
    failed: Callable[[str, OSError], None]
    changed: Callable[[str], None]
    too_deep: Callable[[str], None] = lambda _: None

    def links(self, tick: Callable[[], None]) -> Iterator[tuple[int, int]]:
        """Yield device and inode of each file that a link in a cache leads to, if the link's name
        is judged there. ``tick`` is called once for 64 names."""
        for visit in self:
            for number, entry in enumerate(visit.entries):
                if not number & 63:
                    tick()
                if entry.is_dir(follow_symlinks=False):
                    visit.enter(entry.name)
                elif entry.is_symlink() and visit.place and not is_kept_by_hand(entry.name):
                    with suppress(OSError):
                        if stat.S_ISREG((info := entry.stat()).st_mode):
                            yield info.st_dev, info.st_ino

    def __iter__(self) -> Iterator[Visit]:
        waiting: list[tuple[str, CachePlace | None, int]] = [("", None, 0)]
        while waiting:
            relative, above, depth = waiting.pop()
            try:
                with self.reader.folder(self.root / relative, relative) as folder:
                    yield from self._visit(folder, above, depth, waiting)
            except (FileNotFoundError, NotADirectoryError):
                self.changed(f"{relative or self.root} went away")
            except OSError as error:
                self.failed(relative or str(self.root), error)

    def _visit(
        self,
        folder: Folder,
        above: CachePlace | None,
        depth: int,
        waiting: list[tuple[str, CachePlace | None, int]],
    ) -> Iterator[Visit]:
        before = os.fstat(folder.descriptor).st_mtime_ns
        with os.scandir(folder.descriptor) as listing:
            first = list(itertools.islice(listing, _PEEK))
            names = [each.name for each in first]
            place = recognise(self.root / folder.relative, folder.relative, above, names)
            if place is None and (kind := _kind_by_content(folder, names)) is not None:
                place = CachePlace(kind, folder.relative)
            deeper = 0 if place is not None else depth + 1

            def enter(name: str) -> None:
                if deeper <= _DEEPEST:
                    waiting.append((folder.path(name), place, deeper))
                else:
                    self.too_deep(folder.path(name))

            entries = itertools.chain(first, listing)
            yield Visit(place, folder, entries, enter)
            for entry in entries:  # what the visitor left may contain directories
                if entry.is_dir(follow_symlinks=False):
                    enter(entry.name)
        if os.fstat(folder.descriptor).st_mtime_ns != before:
            self.changed(f"files came or went in {folder.relative or self.root}")


def _kind_by_content(folder: Folder, names: list[str]) -> CacheKind | None:
    """Return what an unknown directory is by its JSON files: those of kernels name objects, those
    of GE's graphs list files."""
    for name in [each for each in names if each.endswith((".json", ".idx"))][:_LOOKED_INTO]:
        try:
            info = folder.look(name)
            if info is None or not 0 < info.st_size < _SMALL:
                continue
            content = folder.read(name, info)
        except (CannotRead, ChangedWhileRead):
            continue
        if content and b'"binFileName"' in content.data and b'"kernelName"' in content.data:
            return CacheKind.KERNELS
        if content and b'"cache_file_list"' in content.data:
            return CacheKind.GE_GRAPHS
    return None


def holds_a_cache(root: Path) -> bool:
    """Return whether there is any directory of a known cache, or nothing at all: a cache that was
    lost is a cache. Raises ``OSError`` if no cache is found and a directory cannot be read."""
    problems: list[OSError] = []
    walk = Walk(root, Reader(), lambda _, error: problems.append(error), lambda _: None)
    is_empty = False
    for visit in walk:
        if visit.place is not None:
            return True
        if not visit.folder.relative:
            is_empty = True
            for entry in visit.entries:
                is_empty = False
                if entry.is_dir(follow_symlinks=False):
                    visit.enter(entry.name)
    if problems:
        raise problems[0]
    return is_empty
