"""Every file operation of the cache, each at a named point.

Seeded defects, crash points and injected errors hook in here and nowhere else: override
:meth:`Fs.at`, which is called with the point's name right before the operation, or set
:attr:`Fs.watch`, which is told what is about to be done.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

LOCK_PATIENCE = 10.0
"""Seconds a writer waits for a lock; a stopped holder must not stop everybody for ever."""

_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)\.(?P<where>[0-9a-f]{8})[0-9a-f]{8}\.temp")
_NEVER_SO_LONG = 24 * 3600.0
"""Seconds that nobody is at work on one file; a node's clock may be wrong by minutes."""


def numbered_at() -> str:
    """Where process numbers count: a digest of this boot and its namespace of them, in hex."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        where = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        where = os.uname().nodename
    return hashlib.sha256(where.encode()).hexdigest()


class LockUnavailable(OSError):
    """Another process held the lock for too long, or the directory allows none."""


class Act(str, Enum):
    """What one operation does to the file system."""

    READ = "read"
    LIST = "list"
    STATE = "state"
    CREATE = "create"
    WRITE = "write"
    SYNC = "sync"
    SYNC_DIRECTORY = "sync-directory"
    RENAME = "rename"
    REMOVE = "remove"
    REMOVE_DIRECTORY = "remove-directory"
    MAKE_DIRECTORY = "make-directory"
    TOUCH = "touch"
    LOCK = "lock"


@dataclass(frozen=True)
class Step:
    """One operation that is about to be done, at a named point.

    ``data`` is what a write writes, from byte ``offset`` of the file on; ``target`` a rename's
    new name.
    """

    point: str
    act: Act
    path: Path
    data: bytes = b""
    offset: int = 0
    target: Path | None = None


class Fs:
    """Plain POSIX file operations. Links below the cache are never followed."""

    file_mode = 0o640
    directory_mode = 0o750
    watch: Callable[[Step], None] | None = None
    """Told of each operation right before it; what it raises is raised by the operation."""

    def at(self, point: str) -> None:
        """Called before each operation; ``point`` is ``<phase>.<operation>``."""

    def step(
        self,
        point: str,
        act: Act,
        path: Path,
        data: bytes = b"",
        offset: int = 0,
        target: Path | None = None,
    ) -> None:
        """Say what comes next; every operation begins with it."""
        self.at(point)
        if self.watch is not None:
            self.watch(Step(point, act, path, data, offset, target))

    def read(self, point: str, path: Path) -> bytes:
        """Whole contents of a regular file.

        Reading is no use: where the kernel allows it, it leaves the access time alone.

        Raises:
            OSError: where it is missing, unreadable, a link, or no regular file.
        """
        self.step(point, Act.READ, path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags | os.O_NOATIME)
        except PermissionError:
            descriptor = os.open(path, flags)  # O_NOATIME is for the file's owner only
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return file.read()

    def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
        """A new synced file beside ``target``, to be renamed over it; removed on failure."""
        path = self.temporary_path(target)
        self.write_new(point, path, data)
        return path

    def write_new(self, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        """A synced file where none was; removed on failure. Its mode is ``file_mode``, or
        another.

        Raises:
            FileExistsError: where something has the name.
        """
        self.step(f"{point}.create", Act.CREATE, path)
        descriptor = os.open(
            path,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
            self.file_mode if mode is None else mode,
        )
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                written = 0
                while written < len(data):
                    rest = data[written:]
                    self.step(f"{point}.write", Act.WRITE, path, rest, written)
                    written += file.write(rest) or 0
                self.step(f"{point}.fsync", Act.SYNC, path)
                os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def temporary_path(self, target: Path) -> Path:
        """A name no other writer uses, on this node or another; see :meth:`is_abandoned`."""
        token = numbered_at()[:8] + secrets.token_hex(4)
        return target.with_name(f".{target.name}.{os.getpid()}.{token}.temp")

    def is_abandoned(self, entry: os.DirEntry[str]) -> bool:
        """Whether what has a temporary name is nobody's any more: its process was one of this
        node and is gone, or it is a day old. This process itself must not be at work on any."""
        found = _TEMPORARY.fullmatch(entry.name)
        if found is None:
            return False
        if found["where"] == numbered_at()[:8]:
            return int(found["pid"]) == os.getpid() or not Path("/proc", found["pid"]).exists()
        try:
            return time.time() - entry.stat(follow_symlinks=False).st_mtime > _NEVER_SO_LONG
        except FileNotFoundError:
            return False

    def replace(self, point: str, source: Path, target: Path) -> None:
        """Rename over, as one step."""
        self.step(point, Act.RENAME, source, target=target)
        source.replace(target)

    def remove(self, point: str, path: Path) -> None:
        """Remove a file or a link (never its target); nothing where it is gone already."""
        self.step(point, Act.REMOVE, path)
        path.unlink(missing_ok=True)

    def remove_directory(self, point: str, path: Path) -> None:
        """Remove an empty directory."""
        self.step(point, Act.REMOVE_DIRECTORY, path)
        path.rmdir()

    def sync_directory(self, point: str, path: Path) -> None:
        """Make renames and removals in a directory survive a power loss."""
        self.step(point, Act.SYNC_DIRECTORY, path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_directories(self, point: str, path: Path) -> None:
        """Create a directory and its parents, closed to others."""
        for each in (*reversed(path.parents), path):
            if not each.is_dir():
                self.step(point, Act.MAKE_DIRECTORY, each)
                each.mkdir(self.directory_mode, exist_ok=True)

    def entries(self, point: str, path: Path) -> list[os.DirEntry[str]]:
        """What a directory holds; nothing where there is none."""
        self.step(point, Act.LIST, path)
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def state(self, point: str, path: Path) -> os.stat_result:
        """Size, times and kind of a file or of a link itself; contents are not touched."""
        self.step(point, Act.STATE, path)
        return path.lstat()

    def renew_access_time(self, point: str, path: Path) -> None:
        """Set the access time to now and keep the modification time."""
        self.step(point, Act.TOUCH, path)
        modified = path.stat(follow_symlinks=False).st_mtime_ns
        os.utime(path, ns=(time.time_ns(), modified), follow_symlinks=False)

    def see(self, point: str, path: Path) -> None:
        """Have this node see a name that it looked up before another node made it.

        NFS and FUSE go on saying that it is missing, though the directory lists it, until they
        are told otherwise: by refusing to make what is there.
        """
        self.step(point, Act.MAKE_DIRECTORY, path)
        with suppress(FileExistsError):
            path.mkdir(self.directory_mode)
            path.rmdir()  # it is gone by now

    @contextmanager
    def lock(self, point: str, path: Path, patience: float = LOCK_PATIENCE) -> Iterator[None]:
        """Hold a lock that the kernel releases with its holder, however the holder ends.

        Raises:
            LockUnavailable: where it cannot be had within ``patience`` seconds.
        """
        self.step(point, Act.LOCK, path)
        deadline = time.monotonic() + patience
        while True:
            descriptor = self._open_lock(path)
            try:
                self._acquire(descriptor, path, deadline)
                if self._is(descriptor, path):
                    yield
                    return
            finally:
                os.close(descriptor)

    def _open_lock(self, path: Path) -> int:
        try:
            return os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, self.file_mode
            )
        except OSError as error:
            raise LockUnavailable(error.errno, error.strerror, str(path)) from None

    def _acquire(self, descriptor: int, path: Path, deadline: float) -> None:
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockUnavailable(
                        errno.EAGAIN, "held by another process", str(path)
                    ) from None
                time.sleep(0.002)  # flock has no bounded wait of its own
            except OSError as error:
                raise LockUnavailable(error.errno, error.strerror, str(path)) from None

    def _is(self, descriptor: int, path: Path) -> bool:
        """Whether a name still stands for an open file: its last holder may have removed it."""
        try:
            return os.path.samestat(os.fstat(descriptor), path.lstat())
        except FileNotFoundError:
            return False
