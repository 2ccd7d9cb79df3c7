"""Whether a release's model has a node of some name, read from the model's file alone.

A network file keeps a name whole: as a field of a protocol buffer, which is its length and its
bytes, or in quotes, where the file is text. So no package is needed that reads the format, and
the formats that nothing here can read are looked through, too.
"""

from __future__ import annotations

import mmap
import re

from pytest_ascendcache.release.file import Release

_NAME = {"3": b"\x0a", "5": b"\x1a"}
"""How the field of a node's name begins, by ``--framework``: TensorFlow's and ONNX's. Where it is
not known, any field with these bytes counts."""
_TYPE = {"5": b"\x22"}
"""The same for a node's type, where atc numbers the nodes that have no name."""
_NUMBERED = re.compile(r"(.+)_\d+")


def has_node(release: Release, name: str) -> bool:
    """Whether the model has a node ``name``. A type and a number, as atc names ONNX nodes without
    a name, count where the model has a node of this type.

    Raises:
        OSError: for a model that cannot be read.
    """
    if release.model is None:
        return False
    framework = release.options.get("framework", "")
    wanted = [_NAME.get(framework, b"") + _field(name), f'"{name}"'.encode()]
    numbered = _NUMBERED.fullmatch(name)
    if numbered and framework in _TYPE:
        wanted.append(_TYPE[framework] + _field(numbered[1]))
    with release.model.open("rb") as file:
        if not release.model.stat().st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(each) >= 0 for each in wanted)


def _field(text: str) -> bytes:
    """The length of a text as a protocol buffer writes it, and the text."""
    data = text.encode()
    length, coded = len(data), bytearray()
    while length > 0x7F:
        coded.append(length & 0x7F | 0x80)
        length >>= 7
    coded.append(length)
    return bytes(coded) + data
