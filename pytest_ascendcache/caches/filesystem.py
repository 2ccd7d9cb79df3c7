"""How a file system treats access times, found out by trying, and flags that control it."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_HOUR = 3600


class AccessTimes(str, Enum):
    """When reading a file updates its access time.

    ``RELATIME``: only if it is not newer than the modification or change time, or if it is a day
    old. ``STRICT``: always. ``NONE``: never, so a read leaves no trace.
    """

    RELATIME = "relatime"
    STRICT = "strictatime"
    NONE = "noatime"


@dataclass(frozen=True)
class FileSystem:
    """The type of a mount (``ext4``, ``tmpfs``, ...), and how it treats access times."""

    type: str
    access_times: AccessTimes

    def __str__(self) -> str:
        return f"{self.type}, {self.access_times.value}"


def probe_file_system(directory: Path) -> FileSystem:
    """Probe the file system of ``directory`` with two temporary files, which are removed again."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="ascendcache-probe-") as name:
        # Every mount except noatime updates an access time in the past, because the change time
        # is newer. Only strictatime updates one in the future.
        renews_old = _renews(Path(name) / "old", -_HOUR)
        renews_new = _renews(Path(name) / "new", +_HOUR)
    if not renews_old:
        behaviour = AccessTimes.NONE
    else:
        behaviour = AccessTimes.STRICT if renews_new else AccessTimes.RELATIME
    return FileSystem(_mount_type(directory), behaviour)


def _renews(path: Path, offset: int) -> bool:
    path.write_bytes(b"probe")
    modified = path.stat().st_mtime
    os.utime(path, (modified + offset, modified - 2 * _HOUR))
    before = path.stat().st_atime_ns
    path.read_bytes()
    return path.stat().st_atime_ns != before


def _mount_type(directory: Path) -> str:
    """The file-system type of a directory's mount, from the kernel's table of mounts."""
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        fields = line.split()
        if fields[2] == wanted and "-" in fields:
            return fields[fields.index("-") + 1]
    return "unknown"


_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""``FS_IOC_GETFLAGS`` and ``FS_IOC_SETFLAGS`` of x86-64 and aarch64."""

_NO_ACCESS_TIMES = 0x80
"""``FS_NOATIME_FL``, as set by ``chattr +A``; new files inherit it from their directory."""

_IMMUTABLE = 0x10
"""``FS_IMMUTABLE_FL``, as set by ``chattr +i``."""


def keep_access_times(directory: Path, keep: bool) -> bool:
    """Turn access times of files that are created in a directory on or off, by its noatime flag.

    Returns whether reading now behaves as requested. It needs no privileges, but the user must own
    the directory, and the file system must know the flag (ext4, btrfs, xfs, new tmpfs). It cannot
    turn access times on if the mount itself is noatime.
    """
    _set_flag(directory, _NO_ACCESS_TIMES, not keep)  # the probe shows whether it took effect
    return (probe_file_system(directory).access_times is not AccessTimes.NONE) is keep


def keep_access_time_of(path: Path, keep: bool) -> None:
    """Like :func:`keep_access_times` for a single file; does nothing if that is impossible."""
    _set_flag(path, _NO_ACCESS_TIMES, not keep)


def make_immutable(path: Path, immutable: bool) -> bool:
    """Make a file, or the names in a directory, immutable even for root, or undo that.

    Returns whether that succeeded. It needs the capability ``CAP_LINUX_IMMUTABLE`` and a file
    system that supports the flag.
    """
    return _set_flag(path, _IMMUTABLE, immutable)


def _set_flag(path: Path, flag: int, on: bool) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        flags = int.from_bytes(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)), sys.byteorder)
        wanted = flags | flag if on else flags & ~flag
        fcntl.ioctl(descriptor, _SET_FLAGS, wanted.to_bytes(8, sys.byteorder))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
