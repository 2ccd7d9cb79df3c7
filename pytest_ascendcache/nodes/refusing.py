"""A FUSE file system that passes operations on to a directory, except what its profile refuses.

``python -I refusing.py BACKING MOUNTPOINT CONTROL PROFILE``, in the foreground:

============== ===================================================================================
no-locks       every lock ends with ENOLCK, as on NFS without a lock manager
no-hardlinks   every link ends with EPERM, as on FAT and some object stores
stale-handles  an open file that another node has replaced or removed reads as ESTALE
============== ===================================================================================

A test can stop the next opening of a file for reading, to replace the file right behind it: it
puts a file ``hold`` into CONTROL, with a line that names the directory of a gate's FIFOs
(``faults.gate``), and a line with the end of the file's path. The opening then waits at the gate.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mfusepy

_SHOWN = (
    *("st_atime_ns", "st_mtime_ns", "st_ctime_ns"),
    *("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino", "st_blocks"),
)


class Passing(mfusepy.Operations):  # type: ignore[misc] # its base has no types
    """Every operation acts on the same path below another directory."""

    use_ns = True

    def __init__(self, backing: Path, control: Path) -> None:
        self._backing = str(backing)
        self._control = control
        self._seeking = threading.Lock()

    def _at(self, path: str) -> str:
        return self._backing + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        state = os.lstat(self._at(path)) if fh is None else os.fstat(fh)
        return {name.removesuffix("_ns"): getattr(state, name) for name in _SHOWN}

    def readdir(self, path: str, fh: int) -> Iterator[str]:
        yield from (".", "..", *os.listdir(self._at(path)))

    def statfs(self, path: str) -> dict[str, int]:
        state = os.statvfs(self._at(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_files", "f_ffree", "f_namemax")
        return {name: getattr(state, name) for name in names}

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def symlink(self, target: str, source: str) -> None:
        os.symlink(source, self._at(target))

    def link(self, target: str, source: str) -> None:
        os.link(self._at(source), self._at(target))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._at(path), uid, gid, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        now = time.time_ns()
        os.utime(self._at(path), ns=times or (now, now), follow_symlinks=False)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._at(path) if fh is None else fh, length)

    def open(self, path: str, flags: int) -> int:
        # The kernel has already looked the name up and followed links.
        handle = os.open(self._at(path), flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
        if flags & os.O_ACCMODE == os.O_RDONLY:
            self._hold(path)
        return handle

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        os.fsync(fh)

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def _hold(self, path: str) -> None:
        """Wait at the gate if the file ``hold`` requests that for this path."""
        request = self._control / "hold"
        with self._seeking:
            try:
                gate, suffix = request.read_text(encoding="utf-8").splitlines()
            except FileNotFoundError:
                return
            if not path.endswith(suffix):
                return
            request.unlink()
        with contextlib.suppress(OSError):  # the test no longer waits at the gate
            go = os.open(f"{gate}/go", os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.set_blocking(go, True)
                reached = os.open(f"{gate}/reached", os.O_WRONLY | os.O_NONBLOCK)
                os.write(reached, b"r")
                os.close(reached)
                os.read(go, 1)
            finally:
                os.close(go)


class NoLocks(Passing):
    """Every lock is refused."""

    def lock(self, path: str, fh: int, cmd: int, lock: Any) -> int:
        raise mfusepy.FuseOSError(errno.ENOLCK)

    def flock(self, path: str, fh: int, op: int) -> int:
        raise mfusepy.FuseOSError(errno.ENOLCK)


class NoHardLinks(Passing):
    """Every hard link is refused."""

    def link(self, target: str, source: str) -> None:
        raise mfusepy.FuseOSError(errno.EPERM)


class StaleHandles(Passing):
    """An open file becomes stale when another node removes or replaces it.

    If this node itself removes an open file, libfuse keeps it under a hidden name, like NFS.
    """

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if fh is not None:
            _refuse_stale(fh)
        return super().getattr(path, fh)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        _refuse_stale(fh)
        return super().read(path, size, offset, fh)


def _refuse_stale(fh: int) -> None:
    if os.fstat(fh).st_nlink == 0:
        raise mfusepy.FuseOSError(errno.ESTALE)


_KINDS = {"no-locks": NoLocks, "no-hardlinks": NoHardLinks, "stale-handles": StaleHandles}


def main() -> int:
    backing, point, control, profile = sys.argv[1:]
    made = _KINDS[profile](Path(backing), Path(control))
    os.umask(0)
    times = {"entry_timeout": 0, "attr_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(made, point, foreground=True, fsname=backing, allow_other=True, **times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
