"""The files that converting a release's model reads; a conversion is valid until one changes."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release

_ONNX = "5"
"""``--framework`` of ONNX."""

_LOCATION = re.compile(rb"\x0a\x08location\x12(?:([\x01-\x7f])|([\x80-\xff])([\x01-\x7f]))")
"""How an ONNX tensor names the file with its elements: two fields of a protobuf message, the
second with a length of one byte or of two."""

_PIECE = 1 << 20
_LARGE = 64 << 20
"""Bytes that take longer to read than one tick of a file system's clock."""


def read_digests(release: Release) -> dict[str, str]:
    """Return the digests, by path, of the files that the release's command reads. They include an
    ONNX model's external data. Raises ``OSError`` for a file that cannot be read; its ``filename``
    says which."""
    options, files = release.conversion_options, list[Path]()
    named = {atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK, atc.DEBUG_CONFIG, *atc.INPUT_FILES}
    for key, value in options.items():
        path = Path(value)
        if path.is_absolute() and (key in named or path.is_file()):
            files += files_of(path)
    if release.model is not None and options.get("framework") == _ONNX:
        files += external_data(release.model)
    return {str(path): file_sha256(path) for path in files}


def package_stamps(release: Release) -> dict[str, str]:
    """Return sizes and times, by path, of the files in directories that variables name, such as
    packages of operators, without byte code: Python writes it as it runs."""
    values = release.conversion_environment.values()
    texts = [text for value in values for text in value.split(os.pathsep)]
    places = [Path(text) for text in texts if os.path.isabs(text)]  # noqa: PTH117 - of any kind
    files = [path for place in places for path in files_of(place) if path.suffix != ".pyc"]
    stats = {str(path): path.stat() for path in files}
    return {path: f"{of.st_size} bytes of {of.st_mtime_ns}" for path, of in stats.items()}


def files_of(path: Path) -> Iterator[Path]:
    """Yield a regular file, or every regular file below a directory in order."""
    if path.is_dir():
        yield from (each for each in sorted(path.rglob("*")) if each.is_file())
    elif path.is_file():
        yield path


def external_data(model: Path) -> list[Path]:
    """Return the existing files with the elements of an ONNX model's tensors. The model is searched
    for their names: that is cheap for 2 GB and needs no package."""
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
    """Return the digest of a file of any size; a large one is read again only if its time, size or
    inode changed. Reading takes longer than a tick of the clock, so a later change shows."""
    info = path.stat()
    read = _sha256.__wrapped__ if info.st_size < _LARGE else _sha256
    return read(path, info.st_size, info.st_mtime_ns, info.st_ino)


@lru_cache(maxsize=64)
def _sha256(path: Path, *_: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_PIECE):
            digest.update(chunk)
    return digest.hexdigest()
