"""Every directory below one, with what is kept in it. Names are streamed, never gathered."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.audit.reading import Folder, Reader
from pytest_ascendcache.caches.recognition import Place, recognise

_PEEK = 256
"""Names that decide what a directory is whose own name says nothing."""

_DEEPEST = 5
"""Levels of directories that are no cache below which no cache is looked for."""


@dataclass(frozen=True)
class Visit:
    """One directory: its place, that of the directory above it, and what is in it. ``enter`` has
    to be told of each directory that is met among the entries."""

    place: Place | None
    above: Place | None
    folder: Folder
    entries: Iterator[os.DirEntry[str]]
    enter: Callable[[str], None]


@dataclass
class Walk:
    """Goes through a tree. ``failed`` is told of directories that cannot be looked into, and
    ``changed`` of those that were written while they were.

    Every :class:`Visit` has to be used before the next one is asked for.
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
            place = recognise(
                self.root / folder.relative, folder.relative, above, [each.name for each in first]
            )
            deeper = 0 if place is not None else depth + 1

            def enter(name: str) -> None:
                if deeper <= _DEEPEST:
                    waiting.append((folder.path(name), place, deeper))

            content = itertools.chain(first, listing)
            yield Visit(place, above, folder, content, enter)
            for each in content:  # what nobody asked for may have directories in it
                if each.is_dir(follow_symlinks=False):
                    enter(each.name)
        if os.fstat(folder.descriptor).st_mtime_ns != before:
            self.changed(f"files came or went in {folder.relative or self.root}")


def holds_a_cache(root: Path) -> bool:
    """Whether there is a file or directory in some place of a known layout.

    Raises:
        OSError: where ``root`` cannot be looked into.
    """
    problems: list[OSError] = []
    walk = Walk(root, Reader(), lambda _, error: problems.append(error), lambda _: None)
    for visit in walk:
        holds = visit.place is not None and visit.place.kind.holds_entries
        if holds and next(visit.entries, None) is not None:
            return True
    if problems:
        raise problems[0]
    return False
