"""Reading files without leaving a trace: a link is followed where it leads to a regular file, as
toolchains do; nothing but regular files is opened; access times are kept if the kernel allows
it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_LARGE = 1 << 24
"""Bytes. A larger file is hashed in parts; it cannot be metadata."""

_LARGEST = 4 << 30
"""Bytes. No kernel is larger, so a larger file is not read."""

_PART = 1 << 20
_NOFOLLOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
"""What following a link says that leads to nothing."""


def short(data: bytes) -> int:
    """Return a key of eight bytes for any data; a few million keys do not collide."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def numbers() -> array[int]:
    """Return an empty array of eight-byte integers."""
    return array("q")


class ChangedWhileRead(Exception):
    """A file was removed or written while it was read."""


class CannotRead(Exception):
    """A file exists but cannot be read, for the reason given."""


@dataclass
class FirstFew:
    """How many things there are, and the first few of them, ``most`` at the most."""

    most: int = 5
    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.first) < self.most:
            self.first.append(what)

    def __str__(self) -> str:
        more = self.count - len(self.first)
        return "; ".join(self.first) + (f"; and {more} more" if more else "")


class Content(NamedTuple):
    """A file's state, its bytes (empty for a large one), and its digest if requested."""

    info: os.stat_result
    data: bytes
    sha256: str = ""


class Reader:
    """Opens files below one directory; ``renewed`` counts access times it could not keep."""

    def __init__(self) -> None:
        self.renewed = 0
        self._refusing: set[int] = set()

    @contextmanager
    def folder(self, path: Path, relative: str) -> Iterator[Folder]:
        """Open a directory. Only the audited directory itself may be named by a link. Raises
        ``OSError`` if it cannot be opened."""
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
        """Return a descriptor of a regular file, or of the one that a link leads to."""
        try:
            return self._open(name, owner, directory, _NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        descriptor = self._open(name, owner, directory, _NOFOLLOW & ~os.O_NOFOLLOW)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "leads to no file any more", name)

    def _open(self, name: str, owner: int, directory: int, flags: int) -> int:
        if owner not in self._refusing:
            try:
                return os.open(name, flags | os.O_NOATIME, dir_fd=directory)
            except PermissionError:
                # Only the owner may use O_NOATIME. The next call shows who may read the file.
                self._refusing.add(owner)
        descriptor = os.open(name, flags, dir_fd=directory)
        self.renewed += 1
        return descriptor


@dataclass(frozen=True, slots=True)
class Folder:
    """An open directory. Every ``name`` below is a name in this directory."""

    reader: Reader
    relative: str
    descriptor: int

    def path(self, name: str) -> str:
        """Return the path of a name relative to the audited directory."""
        return f"{self.relative}/{name}" if self.relative else name

    def look(self, name: str) -> os.stat_result | None:
        """Return what a name is, or None if it does not exist. A link to a regular file is what it
        leads to. Raises ``CannotRead`` if nobody may see what that is."""
        try:
            info = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except (OSError, ValueError):
            return None  # no file can have this name if it is too long or contains a zero
        if not stat.S_ISLNK(info.st_mode):
            return info
        try:
            target = os.stat(name, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in _NOWHERE:
                return info
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None
        return target if stat.S_ISREG(target.st_mode) else info

    def is_link(self, name: str) -> bool:
        """Return whether a name is a link, wherever that leads."""
        with suppress(OSError):
            info = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            return stat.S_ISLNK(info.st_mode)
        return False

    def has(self, name: str) -> bool:
        """Return whether a name exists, at a third of the cost of :meth:`look`."""
        if os.access(name, os.F_OK, dir_fd=self.descriptor, follow_symlinks=False):
            return True
        return self.look(name) is not None  # some containers forbid access()

    def read(
        self, name: str, info: os.stat_result | None = None, digest: bool = False
    ) -> Content | None:
        """Read a regular file; returns None if there is none of that name. Pass ``info`` if
        :meth:`look` was called already. Raises ``CannotRead`` if it may not be read, and
        ``ChangedWhileRead`` if it is no longer the file that ``info`` describes."""
        if info is None:
            info = self.look(name)
        if info is None or not stat.S_ISREG(info.st_mode):
            return None
        size = info.st_size
        if size > _LARGE:
            self.check_size(name, info)
        with self.opened(name, info) as descriptor:
            if size > _LARGE:
                return Content(info, b"", sha256_of(descriptor, 0, size) if digest else "")
            data = os.read(descriptor, size + 1)
            while len(data) < size and (more := os.read(descriptor, _LARGE)):
                data += more  # a network file system may return less than requested
        if len(data) != size:
            raise ChangedWhileRead(f"{self.path(name)} was written")
        return Content(info, data, hashlib.sha256(data).hexdigest() if digest else "")

    def check_size(self, name: str, info: os.stat_result, to_its_end: bool = True) -> None:
        """Raise ``CannotRead`` for a file that is mostly a hole, which takes no space and reads as
        zeros; and for one that is larger than any kernel, if it is to be read ``to_its_end``."""
        size = info.st_size
        if size > _LARGE and info.st_blocks * 512 < size // 8:
            raise CannotRead(
                f"{self.path(name)}: has {size >> 20} MB and {info.st_blocks >> 11} on the disk: "
                "the rest is a hole"
            )
        if to_its_end and size > _LARGEST:
            raise CannotRead(f"{self.path(name)}: has {size >> 20} MB, more than any kernel")

    @contextmanager
    def opened(self, name: str, info: os.stat_result) -> Iterator[int]:
        """Open a regular file and yield its descriptor. Raises the errors of
        :meth:`read`."""
        try:
            descriptor = self.reader.open(name, info.st_uid, self.descriptor)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise ChangedWhileRead(f"{self.path(name)} went away") from None
        except OSError as error:
            raise CannotRead(f"{self.path(name)}: {error.strerror}") from None

    def confirm(self, name: str, before: os.stat_result) -> None:
        """Make sure that no process wrote a file since it was judged. Raises ``ChangedWhileRead``
        if the file is no longer in the state ``before``."""
        now = self.look(name)
        if now is None or _state(now) != _state(before):
            raise ChangedWhileRead(f"{self.path(name)} was written")


def _state(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_size, info.st_mtime_ns


def sha256_of(descriptor: int, start: int, size: int) -> str:
    """Return the digest of ``size`` bytes of an open file from the offset ``start``."""
    total, position, end = hashlib.sha256(), start, start + size
    while part := os.pread(descriptor, min(_PART, end - position), position):
        total.update(part)
        position += len(part)
    return total.hexdigest()


def is_large(info: os.stat_result) -> bool:
    """Return whether :meth:`Folder.read` leaves out the bytes of a file."""
    return info.st_size > _LARGE
