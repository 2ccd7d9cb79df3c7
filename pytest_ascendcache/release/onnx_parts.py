"""The parts of an ONNX model by name: its initialisers, and the rest of the graph.

The file is walked as a protocol buffer and not interpreted, so this needs no package. Source: the
message types of ``onnx.proto``: ``ModelProto.graph`` is field 7, ``GraphProto.node`` field 1 and
``initializer`` field 5, ``NodeProto.op_type`` field 4 and ``TensorProto.name`` field 8.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

_Part = TypeVar("_Part")

GRAPH = "the graph"
_MODEL_GRAPH, _INITIALISER, _NAME = 7, 5, 8
_NODE, _TYPE = 1, 4
_MOST = 5000
"""The most initialisers that are recorded by name."""


def onnx_parts(path: Path) -> dict[str, str]:
    """Return the digest of each initialiser by name, and of everything else under ``GRAPH``. Empty
    for a file that is no ONNX model. Raises ``OSError`` if it cannot be read."""
    return dict(_read(path, lambda data: _parts(data).items()))


def onnx_types(path: Path) -> frozenset[str]:
    """Return the types of a model's nodes, without those of subgraphs. Empty for a file that is no
    ONNX model. Raises ``OSError`` if it cannot be read."""
    return frozenset(_read(path, _types))


def _read(path: Path, read: Callable[[mmap.mmap], Iterable[_Part]]) -> list[_Part]:
    if path.stat().st_size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return [*read(data)]
        except (ValueError, IndexError):
            return []


def _types(data: mmap.mmap) -> Iterator[str]:
    for number, start, end in _fields(data, 0, len(data)):
        for inner, first, last in _fields(data, start, end) if number == _MODEL_GRAPH else ():
            for field, at, to in _fields(data, first, last) if inner == _NODE else ():
                if field == _TYPE:
                    yield data[at:to].decode("utf-8", "replace")


def _parts(data: mmap.mmap) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = hashlib.sha256()
    for number, start, end in _fields(data, 0, len(data)):
        if number != _MODEL_GRAPH:
            continue  # producer and version do not change what is computed
        for inner, first, last in _fields(data, start, end):
            name = _name(data, first, last) if inner == _INITIALISER else ""
            if name and len(found) < _MOST:
                found[name] = hashlib.sha256(data[first:last]).hexdigest()
            else:
                rest.update(b"%d:%d:" % (inner, last - first))
                rest.update(data[first:last])
    return {**found, GRAPH: rest.hexdigest()} if found or rest.digest() else {}


def _name(data: mmap.mmap, start: int, end: int) -> str:
    for number, first, last in _fields(data, start, end):
        if number == _NAME:
            return data[first:last].decode("utf-8", "replace")
    return ""


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each field. Raises ``ValueError`` for what is no message."""
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        start = at
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            size, start = _varint(data, at)
            at = start + size
        elif kind == 5:
            at += 4
        else:
            raise ValueError(f"no field has the type {kind}")
        if at > end or number == 0:
            raise ValueError("a field ends outside of its message")
        yield number, start, at


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has too many bytes")
