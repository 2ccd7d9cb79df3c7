"""All file operations of the cache, each at a named point.

Seeded defects, crash points and injected errors hook in here and nowhere else: :attr:`Fs.watch` is
called with a description of each operation right before it.
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
"""Seconds a writer waits for a lock. A stopped holder must not block all others forever."""

_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)\.(?P<where>[0-9a-f]{8})[0-9a-f]{8}\.temp")
_NEVER_SO_LONG = 24 * 3600.0
"""Seconds after which a temporary file of another node counts as abandoned: longer than any write
takes, and long enough that clocks which differ by minutes do not matter."""


def numbered_at() -> str:
    """The scope in which a pid is unique: a hex digest of the boot id and the pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        where = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        where = os.uname().nodename
    return hashlib.sha256(where.encode()).hexdigest()


class LockUnavailable(OSError):
    """Another process held the lock for too long, or no lock can be taken in the directory."""


class FileAct(str, Enum):
    """The kind of a file operation."""

    READ = "read"
    LIST = "list"
    STATE = "state"
    CREATE = "create"
    WRITE = "write"
    SYNC = "sync"
    SYNC_DIRECTORY = "sync-directory"
    RENAME = "rename"
    LINK = "link"
    REMOVE = "remove"
    REMOVE_DIRECTORY = "remove-directory"
    MAKE_DIRECTORY = "make-directory"
    TOUCH = "touch"
    LOCK = "lock"


@dataclass(frozen=True)
class FileStep:
    """A file operation that is about to happen, at a named point.

    ``data`` is what a write writes from byte ``offset`` of the file on; ``target`` is the new
    name of a rename or link.
    """

    point: str
    act: FileAct
    path: Path
    data: bytes = b""
    offset: int = 0
    target: Path | None = None


class Fs:
    """Plain POSIX file operations. Symbolic links in the cache are never followed."""

    file_mode = 0o640
    directory_mode = 0o750
    watch: Callable[[FileStep], None] | None = None
    """Called right before each operation. If it raises, the operation raises the same exception."""

    def step(
        self,
        point: str,
        act: FileAct,
        path: Path,
        data: bytes = b"",
        offset: int = 0,
        target: Path | None = None,
    ) -> None:
        """Announce an operation to :attr:`watch`; ``point`` is ``<phase>.<operation>``. Every
        operation starts with it."""
        if self.watch is not None:
            self.watch(FileStep(point, act, path, data, offset, target))

    def read(self, point: str, path: Path) -> bytes:
        """The content of a regular file.

        Reading does not count as an access for aging: where the kernel allows it, the access time
        is left alone. Raises ``OSError`` if the path is missing, unreadable, a symbolic link, or
        not a regular file.
        """
        self.step(point, FileAct.READ, path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags | os.O_NOATIME)
        except PermissionError:
            descriptor = os.open(path, flags)  # only a file's owner may use O_NOATIME
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            return file.read()

    def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
        """Write and sync a temporary file next to ``target``. It is removed on failure."""
        path = self.temporary_path(target)
        self.write_new(point, path, data)
        return path

    def write_whole(self, point: str, path: Path, data: bytes) -> None:
        """Write a file that readers see complete: a temporary one gets its name."""
        self.replace(f"{point}.rename", self.write_temporary(point, path, data), path)

    def write_new(self, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        """Create and sync a new file. It is removed on failure. ``mode`` is ``file_mode`` if None.

        Raises ``FileExistsError`` if the path exists.
        """
        self.step(f"{point}.create", FileAct.CREATE, path)
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
                    self.step(f"{point}.write", FileAct.WRITE, path, rest, written)
                    written += file.write(rest) or 0
                self.step(f"{point}.fsync", FileAct.SYNC, path)
                os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def temporary_path(self, target: Path) -> Path:
        """A name that no other writer on any node uses. See :meth:`is_abandoned`."""
        token = numbered_at()[:8] + secrets.token_hex(4)
        return target.with_name(f".{target.name}.{os.getpid()}.{token}.temp")

    def is_abandoned(self, entry: os.DirEntry[str]) -> bool:
        """Whether a temporary file has lost its writer.

        True if the writer was a process of this node that has ended, or if the file comes from
        another node and is more than a day old. Call it only while this process itself writes no
        temporary file: its own count as abandoned.
        """
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
        """Rename ``source`` to ``target`` atomically, replacing what has that name."""
        self.step(point, FileAct.RENAME, source, target=target)
        source.replace(target)

    def remove(self, point: str, path: Path) -> None:
        """Remove a file or a link, never the link's target. A missing path is not an error."""
        self.step(point, FileAct.REMOVE, path)
        path.unlink(missing_ok=True)

    def remove_directory(self, point: str, path: Path) -> None:
        """Remove an empty directory."""
        self.step(point, FileAct.REMOVE_DIRECTORY, path)
        path.rmdir()

    def sync_directory(self, point: str, path: Path) -> None:
        """Sync a directory, so that renames and removals in it survive a power loss."""
        self.step(point, FileAct.SYNC_DIRECTORY, path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_directories(self, point: str, path: Path) -> None:
        """Create a directory and its parents, with no access for other users."""
        for each in (*reversed(path.parents), path):
            if not each.is_dir():
                self.step(point, FileAct.MAKE_DIRECTORY, each)
                each.mkdir(self.directory_mode, exist_ok=True)

    def entries(self, point: str, path: Path) -> list[os.DirEntry[str]]:
        """The entries of a directory, sorted by name. Empty if there is no such directory."""
        self.step(point, FileAct.LIST, path)
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def state(self, point: str, path: Path) -> os.stat_result:
        """The ``lstat`` of a file or link: size, times and kind, without reading the content."""
        self.step(point, FileAct.STATE, path)
        return path.lstat()

    def renew_access_time(self, point: str, path: Path) -> None:
        """Set the access time to now and keep the modification time."""
        self.step(point, FileAct.TOUCH, path)
        modified = path.stat(follow_symlinks=False).st_mtime_ns
        os.utime(path, ns=(time.time_ns(), modified), follow_symlinks=False)

    def see(self, point: str, path: Path) -> None:
        """Refresh a stale negative lookup of a name that another node has created.

        After a failed lookup, NFS and FUSE keep reporting the name as missing although the
        directory lists it. An attempt to create it, which they refuse, corrects that.
        """
        self.step(point, FileAct.MAKE_DIRECTORY, path)
        with suppress(FileExistsError):
            path.mkdir(self.directory_mode)
            path.rmdir()  # mkdir worked, so the name is really gone by now

    @contextmanager
    def lock(self, point: str, path: Path, patience: float = LOCK_PATIENCE) -> Iterator[None]:
        """Hold an exclusive ``flock``. The kernel releases it when the holder ends, even by a kill.

        Raises ``LockUnavailable`` if the lock cannot be taken within ``patience`` seconds.
        """
        try:
            self.step(point, FileAct.LOCK, path)
        except OSError as error:
            raise LockUnavailable(error.errno, error.strerror, str(path)) from None
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
                time.sleep(0.002)  # flock has no timeout
            except OSError as error:
                raise LockUnavailable(error.errno, error.strerror, str(path)) from None

    def _is(self, descriptor: int, path: Path) -> bool:
        """Whether the path still names the open file. Its last holder may have removed it."""
        try:
            return os.path.samestat(os.fstat(descriptor), path.lstat())
        except FileNotFoundError:
            return False
