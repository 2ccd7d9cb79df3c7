"""Looking at files without leaving a trace: no link is followed, nothing but files is opened, and
access times stay where the kernel allows it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_LARGE = 1 << 24
"""Bytes. What is larger is hashed in parts, and is no metadata."""

_NOFOLLOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNNOTED = _NOFOLLOW | os.O_NOATIME
_SHOWN = 5


class ChangedWhileRead(Exception):
    """A file went away or was written while it was looked at."""


class CannotRead(Exception):
    """A file that is there and cannot be read; says why."""


@dataclass
class Trouble:
    """What could not be looked at properly: how often, and the first few."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(what)

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return "; ".join(self.first) + (f"; and {more} more" if more else "")


class Content(NamedTuple):
    """A file as it was read: its bytes, empty of a large one, and its digest where asked for."""

    info: os.stat_result
    data: bytes
    sha256: str = ""


class Reader:
    """Opens what is below one directory, and counts whose access times it could not spare."""

    def __init__(self) -> None:
        self.renewed = 0
        self._refusing: set[int] = set()

    @contextmanager
    def folder(self, path: Path, relative: str) -> Iterator[Folder]:
        """A directory to look into; not one that a link leads to, but for the one that was named.

        Raises:
            OSError: where it cannot be opened.
        """
        flags = (_NOFOLLOW if relative else _NOFOLLOW & ~os.O_NOFOLLOW) | os.O_DIRECTORY
        try:
            descriptor = os.open(path, flags | os.O_NOATIME)
        except PermissionError:
            descriptor = os.open(path, flags)
            self.renewed += 1
        try:
            yield Folder(self, relative, descriptor)
        finally:
            os.close(descriptor)

    def open(self, name: str, owner: int, directory: int) -> int:
        """A descriptor of a regular file."""
        if owner not in self._refusing:
            try:
                return os.open(name, _UNNOTED, dir_fd=directory)
            except PermissionError:
                # O_NOATIME is for the owner; whether reading is allowed shows next.
                self._refusing.add(owner)
        descriptor = os.open(name, _NOFOLLOW, dir_fd=directory)
        self.renewed += 1
        return descriptor


@dataclass(frozen=True, slots=True)
class Folder:
    """One open directory; names are names in it."""

    reader: Reader
    relative: str
    descriptor: int

    def path(self, name: str) -> str:
        """A name as it is below the audited directory."""
        return f"{self.relative}/{name}" if self.relative else name

    def look(self, name: str) -> os.stat_result | None:
        """What a name is, or ``None`` where there is nothing."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except (OSError, ValueError):
            return None  # or a name no file can have: too long, or with a zero in it

    def has(self, name: str) -> bool:
        """Whether there is anything of that name, at a third of what a look costs."""
        if os.access(name, os.F_OK, dir_fd=self.descriptor, follow_symlinks=False):
            return True
        return self.look(name) is not None  # some containers forbid to ask

    def read(
        self, name: str, info: os.stat_result | None = None, digest: bool = False
    ) -> Content | None:
        """A regular file, ``None`` where there is none of that name. ``info`` is what it is, for
        who has looked already.

        Raises:
            CannotRead: where it may not be read.
            ChangedWhileRead: where it is not the same file any more.
        """
        if info is None:
            info = self.look(name)
        if info is None or not stat.S_ISREG(info.st_mode):
            return None
        size = info.st_size
        descriptor = self._open(name, info)
        try:
            if size > _LARGE:
                return Content(info, b"", self._digest(descriptor) if digest else "")
            data = os.read(descriptor, size + 1)
            while len(data) < size and (more := os.read(descriptor, _LARGE)):
                data += more  # a network file system may give less than was asked for
        except OSError as error:
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None
        finally:
            os.close(descriptor)
        if len(data) != size:
            raise ChangedWhileRead(f"{self.path(name)} was written")
        return Content(info, data, hashlib.sha256(data).hexdigest() if digest else "")

    @contextmanager
    def opened(self, name: str, info: os.stat_result) -> Iterator[int]:
        """A descriptor of a regular file, to read parts of it.

        Raises:
            CannotRead, ChangedWhileRead: see :meth:`read`.
        """
        descriptor = self._open(name, info)
        try:
            yield descriptor
        except OSError as error:
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _open(self, name: str, info: os.stat_result) -> int:
        try:
            return self.reader.open(name, info.st_uid, self.descriptor)
        except FileNotFoundError:
            raise ChangedWhileRead(f"{self.path(name)} went away") from None
        except OSError as error:
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None

    def _digest(self, descriptor: int) -> str:
        total = hashlib.sha256()
        while part := os.read(descriptor, _LARGE):
            total.update(part)
        return total.hexdigest()

    def confirm(self, name: str, before: os.stat_result | None) -> None:
        """A fault was found: make sure that nobody was writing meanwhile.

        Raises:
            ChangedWhileRead: where the file is not what it was.
        """
        now = self.look(name)
        same = before is now if before is None or now is None else _state(before) == _state(now)
        if not same:
            raise ChangedWhileRead(f"{self.path(name)} was written")


def _state(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_size, info.st_mtime_ns


def is_large(info: os.stat_result) -> bool:
    """Whether a file's bytes are not kept when it is read."""
    return info.st_size > _LARGE
