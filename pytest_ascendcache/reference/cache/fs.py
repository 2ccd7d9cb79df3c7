"""Every file operation of the cache, each at a named point.

Seeded defects, crash points and injected errors hook in here and nowhere else: override
:meth:`Fs.at`, which is called with the point's name right before the operation.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_PATIENCE = 10.0
"""Seconds a writer waits for a lock; a stopped holder must not stop everybody for ever."""

_TEMPORARY_SUFFIX = ".temp"


class LockUnavailable(OSError):
    """The lock is held by somebody who did not let go in time, or cannot be had here."""


class Fs:
    """Plain POSIX file operations. Links below the cache are never followed."""

    file_mode = 0o640
    directory_mode = 0o750

    def at(self, point: str) -> None:
        """Called before each operation; ``point`` is ``<phase>.<operation>``."""

    def read(self, point: str, path: Path) -> bytes:
        """Whole contents of a regular file.

        Reading is no use: where the kernel allows it, it leaves the access time alone.

        Raises:
            OSError: where it is missing, unreadable, a link, or no regular file.
        """
        self.at(point)
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
        self.at(f"{point}.create")
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self.file_mode
        )
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                self.at(f"{point}.write")
                written = 0
                while written < len(data):
                    written += file.write(data[written:]) or 0
                self.at(f"{point}.fsync")
                os.fsync(descriptor)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def temporary_path(self, target: Path) -> Path:
        """A name no other writer uses."""
        token = secrets.token_hex(8)
        return target.with_name(f".{target.name}.{os.getpid()}.{token}{_TEMPORARY_SUFFIX}")

    def replace(self, point: str, source: Path, target: Path) -> None:
        """Rename over, as one step."""
        self.at(point)
        source.replace(target)

    def remove(self, point: str, path: Path) -> None:
        """Remove a file or a link (never its target); nothing where it is gone already."""
        self.at(point)
        path.unlink(missing_ok=True)

    def remove_directory(self, point: str, path: Path) -> None:
        """Remove an empty directory."""
        self.at(point)
        path.rmdir()

    def sync_directory(self, point: str, path: Path) -> None:
        """Make renames and removals in a directory survive a power loss."""
        self.at(point)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_directories(self, point: str, path: Path) -> None:
        """Create a directory and its parents, closed to others."""
        self.at(point)
        for each in (*reversed(path.parents), path):
            if not each.is_dir():
                each.mkdir(self.directory_mode, exist_ok=True)

    def entries(self, point: str, path: Path) -> list[os.DirEntry[str]]:
        """What a directory holds; nothing where there is none."""
        self.at(point)
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def state(self, point: str, path: Path) -> os.stat_result:
        """Size, times and kind of a file or of a link itself; contents are not touched."""
        self.at(point)
        return path.lstat()

    def renew_access_time(self, point: str, path: Path) -> None:
        """Set the access time to now and keep the modification time."""
        self.at(point)
        modified = path.stat(follow_symlinks=False).st_mtime_ns
        os.utime(path, ns=(time.time_ns(), modified), follow_symlinks=False)

    @contextmanager
    def lock(self, point: str, path: Path, patience: float = LOCK_PATIENCE) -> Iterator[None]:
        """Hold a lock that the kernel releases with its holder, however the holder ends.

        Raises:
            LockUnavailable: where it cannot be had within ``patience`` seconds.
        """
        self.at(point)
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, self.file_mode
            )
        except OSError as error:
            raise LockUnavailable(error.errno, error.strerror, str(path)) from None
        try:
            self._acquire(descriptor, path, patience)
            yield
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int, path: Path, patience: float) -> None:
        deadline = time.monotonic() + patience
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
