"""What a package of static kernels holds, by its own index: it is read, and nothing of it is run.

Source: document S, one kernel for each shape; facts ``static-kernel`` sections 2.5 and 3.1.
"""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from pytest_ascendcache.audit.whole import payload_start
from pytest_ascendcache.caches.static_kernels import INDEX, entries_of
from pytest_ascendcache.contract.simplified_key import read_key

_HEAD, _LARGEST, _MOST = 1 << 16, 1 << 24, 1 << 28
"""Bytes of a package's head, of its index, and of all of its files that are unpacked."""


_UNREADABLE = (
    *(OSError, ValueError, EOFError, RuntimeError, zlib.error, lzma.LZMAError),
    *(tarfile.TarError, zipfile.BadZipFile),
)


@dataclass(frozen=True)
class PackedKernel:
    """A kernel of a package: its operator, its file's name, and the extents of its tensors; none if
    its key does not tell them."""

    type: str
    name: str
    extents: tuple[tuple[int, ...], ...] | None

    def is_of(self, name: str, request: Mapping[str, Any]) -> bool:
        """Return whether a kernel may be the one of an operator's information ``name``."""
        if (request.get("op_type") or self.type) != self.type:
            return False
        tensors = [*_tensors(request.get("inputs")), *_tensors(request.get("outputs"))]
        if self.extents is None or not tensors or not all(tensors) or self.name.startswith(name):
            return True
        both = zip(tensors, self.extents, strict=False)
        return len(tensors) == len(self.extents) and all(own in shapes for shapes, own in both)


def packed_kernels(descriptor: int) -> list[PackedKernel] | None:
    """Return the kernels of an open package; None if it has no index that is read."""
    found = None
    try:
        for index in _indexes(descriptor):
            found = (found or []) + [_packed(*key, each) for key, each in entries_of(index).items()]
    except _UNREADABLE:
        return None
    return found


def _packed(operator: str, key: str, entry: Mapping[str, Any]) -> PackedKernel:
    name = str(entry["binPath"]).rpartition("/")[2]
    try:
        tensors = [each for several in read_key(key).parameters for each in several]
    except ValueError:
        return PackedKernel(operator, name, None)
    return PackedKernel(operator, name, tuple(each.extents for each in tensors))


def _indexes(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        head = file.read(_HEAD)
        if b"PK\3\4" in head:
            with zipfile.ZipFile(file) as archive:
                for each in archive.infolist():
                    if each.filename.endswith(f"/{INDEX}") and each.file_size < _LARGEST:
                        yield archive.read(each)
            return
        if (start := payload_start(head)) is not None:
            file.seek(start)
            yield from _in_tar(file)


def _in_tar(file: IO[bytes]) -> Iterator[bytes]:
    total = 0
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for each in archive:
            total += each.size
            if total > _MOST:
                raise ValueError
            if each.name.endswith(f"/{INDEX}") and each.size < _LARGEST:
                member = archive.extractfile(each)
                yield member.read() if member is not None else b""


def _tensors(listed: object) -> Iterator[list[tuple[int, ...]]]:
    """Yield the extents that each tensor may have in a key: as it is kept, or as it was given; none
    if they are not told."""
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, list):
            yield from _tensors(each)
        elif isinstance(each, dict):
            shapes = (each.get("shape"), each.get("origin_shape"))
            yield [(*shape,) for shape in shapes if isinstance(shape, list)]
