"""What a release's conversion reads: the conversion stands for as long as none of it changes."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.atc_options import INPUT_FILES
from pytest_ascendcache.release.file import Release

_ONNX = "5"
"""``--framework`` of ONNX."""

_LOCATION = re.compile(rb"\x0a\x08location\x12(?:([\x01-\x7f])|([\x80-\xff])([\x01-\x7f]))")
"""How a tensor of ONNX names the file its elements are in: two fields of a protobuf message, with
the length of the name in one byte or in two."""

_PIECE = 1 << 20
_LARGE = 64 << 20
"""Bytes that take longer to read than the clock of a file system takes to move on."""


def read_digests(release: Release) -> dict[str, str]:
    """Digests of the files that the release's command names, by path; those of an ONNX model's
    external data too.

    Raises:
        OSError: for a file that cannot be read; its ``filename`` says which.
    """
    options, found = release.conversion_options, dict[str, str]()
    named = {atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK, atc.DEBUG_CONFIG, *INPUT_FILES}
    for key, value in options.items():
        path = Path(value)
        if not path.is_absolute() or not (key in named or path.is_file()):
            continue
        for each in _files(path):
            found[str(each)] = file_sha256(each)
    if release.model is not None and options.get("framework") == _ONNX:
        for path in _external(release.model):
            found[str(path)] = file_sha256(path)
    return found


def package_stamps(release: Release) -> dict[str, str]:
    """Sizes and times of the files in directories that variables name, packages of operators among
    them; byte code, which Python writes there as it runs, is left out."""
    found: dict[str, str] = {}
    for value in release.conversion_environment.values():
        for text in value.split(os.pathsep):
            if os.path.isabs(text):  # noqa: PTH117 - a text that need not be a path
                files = (each for each in _files(Path(text)) if each.suffix != ".pyc")
                found |= {str(each): _stamp(each) for each in files}
    return found


def _files(path: Path) -> Iterator[Path]:
    """A regular file, or every one below a directory, in order."""
    if path.is_dir():
        yield from (each for each in sorted(path.rglob("*")) if each.is_file())
    elif path.is_file():
        yield path


def _external(model: Path) -> list[Path]:
    """Files beside an ONNX model that have elements of its tensors, where they exist.

    They are found by how their names are written; the model itself is not parsed, which is cheap
    for one of 2 GB and needs no package.
    """
    info = model.stat()
    names = _locations(model, info.st_size, info.st_mtime_ns, info.st_ino)
    return [path for path in (model.parent / each for each in names) if path.is_file()]


@lru_cache(maxsize=8)
def _locations(model: Path, size: int, *_: int) -> tuple[str, ...]:
    if size == 0:
        return ()
    found = set()
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in _LOCATION.finditer(data):
            length = ord(match[1] or match[2])
            if match[3]:
                length = (length & 0x7F) | ord(match[3]) << 7
            name = data[match.end() : match.end() + length]
            if b"\0" not in name:
                found.add(os.fsdecode(name))
    return tuple(sorted(found))


def file_sha256(path: Path) -> str:
    """Digest of a file of any size. A large one that has not been written since is not read again:
    its time moves on while it is read, so a later change shows."""
    info = path.stat()
    if info.st_size < _LARGE:
        return _sha256(path)
    return _large_sha256(path, info.st_size, info.st_mtime_ns, info.st_ino)


@lru_cache(maxsize=64)
def _large_sha256(path: Path, *_: int) -> str:
    return _sha256(path)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_PIECE):
            digest.update(chunk)
    return digest.hexdigest()


def _stamp(path: Path) -> str:
    info = path.stat()
    return f"{info.st_size} bytes of {info.st_mtime_ns}"
