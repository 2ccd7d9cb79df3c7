"""Which names of nodes a release's model has, read from the model's file alone.

A network file keeps a name whole: as a field of a protocol buffer, which is its length and its
bytes, or in quotes, where the file is text. So no package is needed that reads the format, and
the formats that nothing here can read are looked through, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pytest_ascendcache.release.file import Release

_NAME = {"3": b"\x0a", "5": b"\x1a"}
"""How the field of a node's name begins, by ``--framework``: TensorFlow's and ONNX's. Where it is
not known, any field with these bytes counts."""
_TYPE = {"5": b"\x22"}
"""The same for a node's type. Atc numbers ONNX nodes that have no name, so a type and any number
count as a name."""
_NUMBERED = re.compile(r"(.+)_\d+")
_AT_ONCE = 1 << 24
"""Bytes of a model that are looked through at once."""


def nodes_among(release: Release, names: Collection[str]) -> frozenset[str]:
    """Those of the names that nodes of the model have.

    Raises:
        OSError: for a model that cannot be read.
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
            for name in wanted.keys() - found:
                if any(text in part for text in wanted[name]):
                    found.add(name)
            before = part[-longest:]
    return frozenset(found)


def _spellings(name: str, framework: str) -> Iterator[bytes]:
    """What a file holds that has a node of this name."""
    yield _NAME.get(framework, b"") + _field(name)
    for quote in ("'", '"'):
        yield f"{quote}{name}{quote}".encode(errors="replace")
    numbered = _NUMBERED.fullmatch(name)
    if numbered and framework in _TYPE:
        yield _TYPE[framework] + _field(numbered[1])


def _field(text: str) -> bytes:
    """The length of a text as a protocol buffer writes it, and the text."""
    data = text.encode(errors="replace")
    length, coded = len(data), bytearray()
    while length > 0x7F:
        coded.append(length & 0x7F | 0x80)
        length >>= 7
    coded.append(length)
    return bytes(coded) + data
