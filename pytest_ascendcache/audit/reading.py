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

_LARGE = 1 << 24
"""Bytes. What is larger is hashed in parts, and is no metadata."""

_NOFOLLOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SHOWN = 5


class ChangedWhileRead(Exception):
    """A file went away or was written while it was looked at."""


class CannotRead(Exception):
    """A file that is there and cannot be read; says why."""


class _SizeChanged(Exception):
    """A file has not as many bytes as it had."""


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


@dataclass(frozen=True)
class Content:
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
                return os.open(name, _NOFOLLOW | os.O_NOATIME, dir_fd=directory)
            except PermissionError:
                # O_NOATIME is for the owner; whether reading is allowed shows next.
                self._refusing.add(owner)
        descriptor = os.open(name, _NOFOLLOW, dir_fd=directory)
        self.renewed += 1
        return descriptor


@dataclass(frozen=True)
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
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return None  # a name no file can have: too long, or with a zero in it

    def read(self, name: str, digest: bool = False) -> Content | None:
        """A regular file, ``None`` where there is none of that name.

        Raises:
            CannotRead: where it may not be read.
            ChangedWhileRead: where it is not the same file any more.
        """
        with self.opened(name) as file:
            if file is None:
                return None
            descriptor, info = file
            if info.st_size > _LARGE:
                return Content(info, b"", self._digest(descriptor) if digest else "")
            data = self._all(descriptor, info.st_size)
            return Content(info, data, hashlib.sha256(data).hexdigest() if digest else "")

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[int, os.stat_result] | None]:
        """A descriptor of a regular file and what it is; ``None`` where there is none.

        Raises:
            CannotRead, ChangedWhileRead: see :meth:`read`.
        """
        info = self.look(name)
        if info is None or not stat.S_ISREG(info.st_mode):
            yield None
            return
        descriptor = -1
        try:
            descriptor = self.reader.open(name, info.st_uid, self.descriptor)
            yield descriptor, info
        except FileNotFoundError:
            raise ChangedWhileRead(f"{self.path(name)} went away") from None
        except OSError as error:
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None
        except _SizeChanged:
            raise ChangedWhileRead(f"{self.path(name)} was written") from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _all(self, descriptor: int, size: int) -> bytes:
        data = os.read(descriptor, size + 1)
        while len(data) < size and (more := os.read(descriptor, size)):
            data += more  # a network file system may give less than was asked for
        if len(data) != size:
            raise _SizeChanged
        return data

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
