"""Reading and writing the files that a user names.

Only regular files of limited size are read, and without blocking.

Files are written atomically. A new or regular file is written under a temporary name in the same
directory, synced and renamed. Of a link, the target is replaced and the link stays.
``/dev/stdout``, a FIFO and a character device are opened and written, and never replaced. Anything
else is refused.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 256 << 20
"""The size limit of an input in bytes. The report of a whole run has a tenth of it."""

_KINDS = {
    stat.S_IFDIR: "Is a directory",
    stat.S_IFIFO: "it is a FIFO, not a regular file",
    stat.S_IFSOCK: "it is a socket, not a regular file",
    stat.S_IFCHR: "it is a device, not a regular file",
    stat.S_IFBLK: "it is a device, not a regular file",
}

_MOST_LINKS = 40
_SHOWN_NAME = 40
"""Characters of a file's name in its temporary file's name; a name may have at most 255 bytes."""


def read_input(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most ``most`` bytes. Links are followed.

    Raises ``OSError`` if it cannot be read, is not a regular file (a FIFO or a device may never
    end), or is too large. ``strerror`` is the reason.
    """
    with open_input(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _too_large(path, most)
    return content


@contextlib.contextmanager
def open_input(path: Path, most: float = math.inf) -> Iterator[BinaryIO]:
    """Open a file as :func:`read_input` does, to read it piece by piece."""
    _check_input(path, path.stat(), most)  # even opening a device may have an effect
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _check_input(path, os.fstat(descriptor), most)
        yield file


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a file with line ends as ``\\n``, read by :func:`read_input`.

    Raises ``OSError`` like :func:`read_input`, and ``UnicodeDecodeError`` if the content is not
    text in the encoding.
    """
    text = read_input(path).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_input(path: Path, info: os.stat_result, most: float) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "it is not a regular file")
        number = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(number, kind, str(path))
    if info.st_size > most:
        raise _too_large(path, most)


def _too_large(path: Path, most: float) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {int(most) >> 20} MiB", str(path))


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file.

    Surrogates, from file names that are not valid text, are written as backslash escapes. Raises
    ``OSError`` if it cannot be written; then an existing file is unchanged.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    with open_output(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write it in parts. After an exception an existing file is unchanged.

    Raises ``OSError`` if it cannot be written.
    """
    if is_stream(path):
        with _open_stream(path) as file:
            yield file
        return
    check_output(path)
    place = destination(path)
    temporary, descriptor = _beside(place)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _take_after(place, descriptor)
            yield file
            file.flush()
            os.fsync(descriptor)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(place.parent)


def copy_tree(source: Path, target: Path, copy: Callable[..., object] = shutil.copy2) -> None:
    """Copy a directory and all below it, links as links, files by ``copy``. What is neither file,
    directory nor link stays behind: opening a FIFO would block. Raises ``shutil.Error`` and
    ``OSError``."""
    shutil.copytree(source, target, symlinks=True, ignore=_special, copy_function=copy)


def _special(directory: str, names: list[str]) -> list[str]:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    modes = {name: Path(directory, name).lstat().st_mode for name in names}
    return [name for name, mode in modes.items() if not any(kind(mode) for kind in kinds)]


def open_log(path: Path) -> BinaryIO:
    """Open a file that grows during a run. It replaces an existing file.

    Raises ``OSError`` if it cannot be written; then an existing file is unchanged.
    """
    if is_stream(path):
        return _open_stream(path)
    check_output(path)
    place = destination(path)
    temporary, descriptor = _beside(place)
    try:
        os.write(descriptor, b"\n")  # fails on a full disk, before the old file is replaced
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        temporary.replace(place)
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return os.fdopen(descriptor, "wb")


def append_output(path: Path, text: str) -> None:
    """Append to a file that other processes write too.

    Raises ``OSError`` if it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _beside(place: Path) -> tuple[Path, int]:
    """Create a temporary file in the same directory. Returns its path and a descriptor."""
    temporary = place.with_name(f".{place.name[:_SHOWN_NAME]}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return temporary, os.open(temporary, flags, 0o666)


def check_output(path: Path) -> None:
    """Check before a long run that a file can be written at its end.

    Raises ``OSError`` if it cannot; ``strerror`` is the reason, and what to name instead.
    """
    if (descriptor := _descriptor(path)) is not None:
        os.fstat(descriptor)
        return
    place = destination(path)
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a directory; name a file in it", str(path))
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        if not os.access(place, os.W_OK):
            raise OSError(errno.EACCES, "it cannot be written; name another", str(path))
        return
    if not stat.S_ISREG(mode):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a block device"
        raise OSError(errno.EINVAL, f"it is {kind}; name a file", str(path))
    directory = place.parent
    if not directory.is_dir():
        reason = f"the directory {directory} does not exist; create it or name another"
        raise OSError(errno.ENOENT, reason, str(path))
    # For root this fails only on a file system that is mounted read-only.
    if not os.access(directory, os.W_OK | os.X_OK):
        reason = f"the directory {directory} cannot be written; name another"
        raise OSError(errno.EACCES, reason, str(path))


def destination(path: Path) -> Path:
    """The path that is written in the end, with all links followed, even dangling ones."""
    return Path(os.path.realpath(path))


def is_stream(path: Path) -> bool:
    """Whether the path is an open descriptor, a FIFO or a character device."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = destination(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _open_stream(path: Path) -> BinaryIO:
    number = _descriptor(path)
    if number is not None:
        # Duplicate it: opening the path again would overwrite a redirected output from its start.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return os.fdopen(os.dup(number), "wb")
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(destination(path), flags)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "no process reads the FIFO", str(path)) from None
        raise
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


def _descriptor(path: Path) -> int | None:
    """The descriptor that a path such as ``/dev/stdout`` stands for, or ``None``."""
    own = os.path.realpath("/proc/self/fd")
    place = os.path.abspath(path)  # noqa: PTH100 - pathlib does not join as links are read
    for _ in range(_MOST_LINKS):
        parent, name = os.path.split(place)
        if os.path.realpath(parent) == own and name.isdecimal():
            return int(name)
        try:
            place = os.path.join(parent, os.readlink(place))  # noqa: PTH118, PTH115
        except OSError:
            return None
    return None


def _take_after(place: Path, descriptor: int) -> None:
    """Copy the mode and, if permitted, the owner of the file that is replaced."""
    try:
        old = place.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
