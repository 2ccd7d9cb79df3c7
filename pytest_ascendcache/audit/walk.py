"""Walks a tree and recognises the caches in it. Names are streamed, never gathered."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.audit.reading import Folder, Reader
from pytest_ascendcache.caches.recognition import Place, recognise

_PEEK = 256
"""How many names decide what a directory is if its own name does not."""

_DEEPEST = 5
"""How many levels below a directory that is no cache are searched for caches."""


@dataclass(frozen=True)
class Visit:
    """One directory: what it is, and what is in it. Call ``enter`` with the name of each
    directory among the ``entries``."""

    place: Place | None
    folder: Folder
    entries: Iterator[os.DirEntry[str]]
    enter: Callable[[str], None]


@dataclass
class Walk:
    """Visits a directory and all directories below it.

    ``failed`` is called with directories that cannot be read, ``changed`` with those that were
    written meanwhile. Use each :class:`Visit` before asking for the next one.
    """

    root: Path
    reader: Reader
    failed: Callable[[str, OSError], None]
    changed: Callable[[str], None]

    def __iter__(self) -> Iterator[Visit]:
        waiting: list[tuple[str, Place | None, int]] = [("", None, 0)]
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
        above: Place | None,
        depth: int,
        waiting: list[tuple[str, Place | None, int]],
    ) -> Iterator[Visit]:
        before = os.fstat(folder.descriptor).st_mtime_ns
        with os.scandir(folder.descriptor) as listing:
            first = list(itertools.islice(listing, _PEEK))
            names = [each.name for each in first]
            place = recognise(self.root / folder.relative, folder.relative, above, names)
            deeper = 0 if place is not None else depth + 1

            def enter(name: str) -> None:
                if deeper <= _DEEPEST:
                    waiting.append((folder.path(name), place, deeper))

            entries = itertools.chain(first, listing)
            yield Visit(place, folder, entries, enter)
            for entry in entries:  # what the visitor left may contain directories
                if entry.is_dir(follow_symlinks=False):
                    enter(entry.name)
        if os.fstat(folder.descriptor).st_mtime_ns != before:
            self.changed(f"files came or went in {folder.relative or self.root}")


def holds_a_cache(root: Path) -> bool:
    """Return whether any directory of a known cache has something in it. Raises ``OSError`` if no
    cache is found and a directory cannot be read."""
    problems: list[OSError] = []
    walk = Walk(root, Reader(), lambda _, error: problems.append(error), lambda _: None)
    for visit in walk:
        holds = visit.place is not None and visit.place.kind.holds_entries
        if holds and next(visit.entries, None) is not None:
            return True
    if problems:
        raise problems[0]
    return False
