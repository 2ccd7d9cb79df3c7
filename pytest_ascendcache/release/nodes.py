"""Finds names of nodes in the file of a release's model, without parsing it.

A network file contains each name in one piece: as a field of a protocol buffer, which is a length
and the bytes, or in quotes if the file is text. The search needs no package for the format, and
works for formats that no package here can read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pytest_ascendcache.release.file import Release

_NAME = {"3": b"\x0a", "5": b"\x1a"}
"""The first byte of the field with a node's name, by ``--framework``: of TensorFlow and ONNX. For
others any field counts that has the name's bytes."""
_TYPE = {"5": b"\x22"}
"""The same for a node's type. ATC calls ONNX nodes without a name by type and number, so a type
with any number counts as a name."""
_NUMBERED = re.compile(r"(.+)_\d+")
_AT_ONCE = 1 << 24
"""Bytes of a model that are searched at once."""


def nodes_among(release: Release, names: Collection[str]) -> frozenset[str]:
    """Return those names that nodes of the model have.

    Raises:
        OSError: if the model cannot be read.
    """
    if release.model is None or not names:
        return frozenset()
    framework = release.options.get("framework", "")
    wanted = {each: tuple(_spellings(each, framework)) for each in names}
    longest = max(len(text) for texts in wanted.values() for text in texts)
    found: set[str] = set()
    before = b""
    with release.model.open("rb") as file:
        while len(found) < len(wanted) and (read := file.read(_AT_ONCE)):
            part = before + read
            found |= {name for name in wanted if any(text in part for text in wanted[name])}
            before = part[-longest:]
    return frozenset(found)


def _spellings(name: str, framework: str) -> Iterator[bytes]:
    """Yield the byte strings of which a file has one if it has a node of this name."""
    yield _NAME.get(framework, b"") + _field(name)
    for quote in ("'", '"'):
        yield f"{quote}{name}{quote}".encode(errors="replace")
    numbered = _NUMBERED.fullmatch(name)
    if numbered and framework in _TYPE:
        yield _TYPE[framework] + _field(numbered[1])


def _field(text: str) -> bytes:
    """Encode a text as a protocol buffer does: its length, then its bytes."""
    data = text.encode(errors="replace")
    length, coded = len(data), bytearray()
    while length > 0x7F:
        coded.append(length & 0x7F | 0x80)
        length >>= 7
    coded.append(length)
    return bytes(coded) + data
