"""What a directory held at one moment, and what changed between two."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

_CHUNK = 1 << 16
_LARGE_HOLE = 1 << 16
"""Bytes. Reading smaller holes costs nothing."""


@dataclass(frozen=True)
class FileState:
    """One file, directory or link. Times in nanoseconds, size in bytes.

    ``sha256`` is the digest of a regular file's content, else empty; ``target`` a link's text;
    ``text`` the content of a small JSON file, which people may want to compare.
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
    """How one path differs between two snapshots."""

    ADDED = "added"
    REMOVED = "removed"
    REPLACED = "replaced"
    CHANGED = "changed"
    TOUCHED = "touched"
    READ = "read"


@dataclass(frozen=True)
class Snapshot:
    """Every path below a directory with its state; paths are relative, with ``/``."""

    files: Mapping[str, FileState]

    @classmethod
    def take(cls, root: Path) -> Snapshot:
        """Look at everything below ``root``; links are not followed, a missing root is empty.

        Access times are read before contents, and contents without renewing them where the
        kernel allows it (``O_NOATIME``), so that looking does not disturb what is judged.
        """
        return cls(MappingProxyType(dict(_walk(str(root), ""))))

    def changes(self, later: Snapshot) -> dict[str, Change]:
        """What became of each path that differs; ``READ`` is a moved access time alone."""
        found: dict[str, Change] = {}
        for path in sorted({*self.files, *later.files}):
            change = _change(self.files.get(path), later.files.get(path))
            if change is not None:
                found[path] = change
        return found

    def disturbed(self, later: Snapshot) -> dict[str, Change]:
        """The changes but for moved times: a reader may renew them, also through a link."""
        return {
            path: change
            for path, change in self.changes(later).items()
            if change is not Change.READ
            and not (change is Change.TOUCHED and self._only_timed(path, later))
        }

    def _only_timed(self, path: str, later: Snapshot) -> bool:
        before, after = self.files[path], later.files[path]
        return (before.mode, before.owner) == (after.mode, after.owner)


def _change(before: FileState | None, after: FileState | None) -> Change | None:
    if before is None:
        return Change.ADDED
    if after is None:
        return Change.REMOVED
    if before.kind == "directory" == after.kind:
        # Reading a directory's names moves its access time; only its own attributes count.
        same = (before.mode, before.owner) == (after.mode, after.owner)
        return None if same else Change.TOUCHED
    if (before.kind, before.inode) != (after.kind, after.inode):
        return Change.REPLACED
    if (before.sha256, before.target, before.size) != (after.sha256, after.target, after.size):
        return Change.CHANGED
    attributes = (before.mode, before.owner, before.mtime_ns, before.ctime_ns)
    if attributes != (after.mode, after.owner, after.mtime_ns, after.ctime_ns):
        return Change.TOUCHED
    # Reading a link's text, as looking at it does, moves the link's own access time.
    moved = before.kind == "file" and before.atime_ns != after.atime_ns
    return Change.READ if moved else None


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
            continue  # gone since the directory was listed
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
        if path.endswith(".json"):
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
    """Digest of a file, and its content if that is not more than one chunk.

    A file with a large hole is told by its data and its size, without reading the hole.
    """
    digest, content, read = hashlib.sha256(), b"", 0
    has_holes = info.st_size - info.st_blocks * 512 > _LARGE_HOLE
    for number, chunk in enumerate(read_quietly(path, skip_holes=has_holes)):
        digest.update(chunk)
        content = chunk if number == 0 else b""
        read += len(chunk)
    if has_holes and read != info.st_size:
        digest.update(f" in {info.st_size} bytes".encode())
    return digest.hexdigest(), content


def read_quietly(path: str | Path, skip_holes: bool = False) -> Iterator[bytes]:
    """Contents of a file in chunks, without renewing its access time where that is allowed.

    ``skip_holes`` leaves out what was never written.

    Raises:
        OSError: where there is no regular file; a FIFO is not waited for.
    """
    how = os.O_RDONLY | os.O_NONBLOCK
    try:
        descriptor = os.open(path, how | os.O_NOATIME)
    except PermissionError:
        # O_NOATIME is for the file's owner only.
        descriptor = os.open(path, how)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
            if skip_holes:
                position = os.lseek(descriptor, 0, os.SEEK_CUR)
                try:
                    os.lseek(descriptor, position, os.SEEK_DATA)
                except OSError:
                    return  # nothing but a hole is left
    finally:
        os.close(descriptor)
