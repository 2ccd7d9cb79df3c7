"""Reading a file that a user names: only regular files of limited size, and without blocking."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 256 << 20
"""The size limit of an input in bytes. The report of a whole run has a tenth of it."""

_KINDS = {
    stat.S_IFDIR: "Is a directory",
    stat.S_IFIFO: "it is a FIFO, not a regular file",
    stat.S_IFSOCK: "it is a socket, not a regular file",
    stat.S_IFCHR: "it is a device, not a regular file",
    stat.S_IFBLK: "it is a device, not a regular file",
}


def read_input(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most ``most`` bytes. Links are followed.

    Raises:
        OSError: if it cannot be read, is not a regular file (a FIFO or a device may never end), or
            is too large. ``strerror`` is the reason.
    """
    _check(path, path.stat(), most)  # even opening a device may have an effect
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check(path, os.fstat(descriptor), most)
        content = file.read(most + 1)
    if len(content) > most:
        raise _too_large(path, most)
    return content


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a file with line ends as ``\\n``, read by :func:`read_input`.

    Raises:
        OSError: see :func:`read_input`.
        UnicodeDecodeError: if the content is not text in the encoding.
    """
    text = read_input(path).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check(path: Path, info: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "it is not a regular file")
        number = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(number, kind, str(path))
    if info.st_size > most:
        raise _too_large(path, most)


def _too_large(path: Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
