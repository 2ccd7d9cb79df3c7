"""Snapshots of a directory tree, and the changes between two of them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

_CHUNK = 1 << 16
_LONG_HOLE = 1 << 30
"""Bytes. A longer hole counts in a digest by its length, and not by its zeros."""


@dataclass(frozen=True)
class FileState:
    """The state of a file, directory or link. Times are in nanoseconds, the size in bytes.

    ``sha256`` is the digest of a regular file's content, else empty; ``target`` is a link's text;
    ``text`` is the content of a small JSON or ini file, for differences.
    """

    kind: str
    size: int
    mode: int
    inode: int
    owner: int
    mtime_ns: int
    ctime_ns: int
    atime_ns: int
    sha256: str = ""
    target: str = ""
    text: str = ""


class Change(str, Enum):
    """How a path differs between two snapshots."""

    ADDED = "added"
    REMOVED = "removed"
    REPLACED = "replaced"
    CHANGED = "changed"
    TOUCHED = "touched"
    READ = "read"


@dataclass(frozen=True)
class Snapshot:
    """The state of every path below a directory. Paths are relative and use ``/``."""

    files: Mapping[str, FileState]

    @classmethod
    def take(cls, root: Path) -> Snapshot:
        """Take a snapshot of everything below ``root``; empty if it does not exist.

        Links are not followed. Access times are read before contents, and reading does not update
        them where the kernel allows that (``O_NOATIME``), so a snapshot does not disturb what is
        under test.
        """
        return cls(MappingProxyType(dict(_walk(str(root), ""))))

    def changes(self, later: Snapshot) -> dict[str, Change]:
        """The change of each path that differs. ``READ``: only the access time differs."""
        return {
            path: change
            for path in sorted({*self.files, *later.files})
            if (change := _change(self.files.get(path), later.files.get(path))) is not None
        }

    def disturbed(self, later: Snapshot) -> dict[str, Change]:
        """The changes except those of times only: a reader may update times, even by a link."""
        return {
            path: change
            for path, change in self.changes(later).items()
            if change is not Change.READ
            and not (change is Change.TOUCHED and _same_owner(self.files[path], later.files[path]))
        }


def _same_owner(before: FileState, after: FileState) -> bool:
    return (before.mode, before.owner) == (after.mode, after.owner)


def _change(before: FileState | None, after: FileState | None) -> Change | None:
    if before is None:
        return Change.ADDED
    if after is None:
        return Change.REMOVED
    if before.kind == "directory" == after.kind:
        # Listing a directory updates its access time, and changes in it its other times.
        return None if _same_owner(before, after) else Change.TOUCHED
    if (before.kind, before.inode) != (after.kind, after.inode):
        return Change.REPLACED
    if (before.sha256, before.target, before.size) != (after.sha256, after.target, after.size):
        return Change.CHANGED
    if not _same_owner(before, after) or before.mtime_ns != after.mtime_ns:
        return Change.TOUCHED
    # A snapshot reads the text of each link, which updates the link's own access time.
    if before.kind != "file" or before.atime_ns == after.atime_ns:
        return None  # a change time alone, as of a link count, is nothing that a run can see
    return Change.READ if before.ctime_ns == after.ctime_ns else Change.TOUCHED


def _walk(root: str, prefix: str) -> Iterator[tuple[str, FileState]]:
    try:
        with os.scandir(root) as entries:
            names = sorted(each.name for each in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path, relative = f"{root}/{name}", prefix + name
        try:
            state = _look(path)
        except FileNotFoundError:
            continue  # removed since the directory was listed
        yield relative, state
        if state.kind == "directory":
            yield from _walk(path, relative + "/")


def _look(path: str) -> FileState:
    info = os.lstat(path)
    kind, digest, target, text = "other", "", "", ""
    if stat.S_ISDIR(info.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(info.st_mode):
        kind, target = "link", str(Path(path).readlink())
    elif stat.S_ISREG(info.st_mode):
        kind = "file"
        digest, content = _digest(path, info)
        if path.endswith((".json", ".ini")):
            text = content.decode("utf-8", "replace")
    return FileState(
        kind=kind,
        size=info.st_size,
        mode=stat.S_IMODE(info.st_mode),
        inode=info.st_ino,
        owner=info.st_uid,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        atime_ns=info.st_atime_ns,
        sha256=digest,
        target=target,
        text=text,
    )


def _digest(path: str, info: os.stat_result) -> tuple[str, bytes]:
    """The digest of a file, and its content if it is at most one chunk."""
    if info.st_size > _CHUNK:
        with _quietly_open(path) as descriptor:
            return _digest_of_large(descriptor, info.st_size), b""
    content = b"".join(read_quietly(path))
    return hashlib.sha256(content).hexdigest(), content


def _digest_of_large(descriptor: int, size: int) -> str:
    """The digest of a file of so many bytes. Holes are not read: they are zeros, also where they
    have disk space."""
    digest, at, first = hashlib.sha256(), 0, b""
    while (begins := _next_data(descriptor, at)) is not None:
        _add_zeros(digest, begins - at)
        chunk = os.pread(descriptor, _CHUNK, begins)
        if not chunk:
            return digest.hexdigest()
        digest.update(chunk)
        first, at = b"" if at else chunk, begins + len(chunk)
    if first and size - at <= _LONG_HOLE:
        return _before_zeros(first.rstrip(b"\0"), size)
    _add_zeros(digest, size - at)
    return digest.hexdigest()


def _next_data(descriptor: int, at: int) -> int | None:
    """Where the next data of a file begins; ``None`` if it has only a hole from there on."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else at


@lru_cache(maxsize=256)
def _before_zeros(content: bytes, size: int) -> str:
    """The digest of a file of ``size`` bytes that begins with this content. It is kept, because
    entries that a test adds differ in nothing but their names."""
    digest = hashlib.sha256(content)
    _add_zeros(digest, size - len(content))
    return digest.hexdigest()


def _add_zeros(digest: hashlib._Hash, number: int) -> None:
    if number > _LONG_HOLE:
        digest.update(f"{number} zeros".encode())
        return
    zeros = bytes(_CHUNK)
    for left in range(number, 0, -_CHUNK):
        digest.update(zeros[:left])


def read_quietly(path: str | Path) -> Iterator[bytes]:
    """Read a file in chunks, without updating its access time where the kernel allows that.

    Raises ``OSError`` if the path is not a readable regular file. Opening a FIFO does not block.
    """
    with _quietly_open(path) as descriptor:
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk


@contextmanager
def _quietly_open(path: str | Path) -> Iterator[int]:
    how = os.O_RDONLY | os.O_NONBLOCK
    try:
        descriptor = os.open(path, how | os.O_NOATIME)
    except PermissionError:
        descriptor = os.open(path, how)  # only a file's owner may use O_NOATIME
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)
