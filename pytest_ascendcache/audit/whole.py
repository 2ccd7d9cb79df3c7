"""Whether a file has all of its bytes, by what its own format says: nobody's digest is needed.

Sources: the ELF specification; GE's ``ModelFileHeader`` (256 bytes; the length of the rest is at 76
or, in newer files, at 184); makeself's header; protocol buffers (MindIR, AIR, GE's variable
descriptions); ZIP.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

from pytest_ascendcache.caches.elf import MAGIC, ElfError, check_extent
from pytest_ascendcache.words import count


class WrongDigest(str):
    """What is wrong with a file that has all of its bytes, and other ones than its head says."""


Read = Callable[[int, int], bytes]
"""``read(offset, size)`` returns bytes of a file."""

_OM, _OM_HEADER = b"IMOD", 256
_OM_LENGTH, _OM_LONG = struct.Struct("<I"), struct.Struct("<Q")
_ZIP_END = struct.Struct("<4s4H2IH")
_PROTOBUF = {".mindir": 6, ".air": 2, ".rdcpkt": 1}
"""Suffixes of protocol buffers, with a field that every whole file reaches."""

_PART, _HEAD = 1 << 20, 1 << 16
_REST = re.compile(rb"#!.*\n(?:if )?sha256=([0-9a-f]{64})\b.*\n")
"""The head of packages made by ``ascendcache-op-compiler``: a digest of all that follows."""

_SUMS = (
    (re.compile(rb'^SHA="([0-9a-f]{64})"', re.MULTILINE), hashlib.sha256),
    (re.compile(rb'^MD5="([0-9a-f]{32})"', re.MULTILINE), hashlib.md5),
)
_CKSUM = re.compile(rb'^CRCsum="(\d+)"', re.MULTILINE)
_REVERSED = bytes(int(f"{each:08b}"[::-1], 2) for each in range(256))
_SIZES = re.compile(rb'^filesizes="(\d+(?: \d+)*)"', re.MULTILINE)
_LINES = re.compile(rb'^skip="?(\d+)"?|head -n "?(\d+)"? "\$0"', re.MULTILINE)


def damage(suffix: str, read: Read, size: int) -> str | None:
    """Return what is wrong with a file of ``size`` bytes; empty if it is whole, and None if its
    format says nothing about it. A package (``.run``) is read to its end, others at few places."""
    head = read(0, 64)
    if not size:
        return "is empty"
    if not any(head):  # no format begins so
        return "is zeros: its data was lost"
    if head[:4] == MAGIC[:4]:
        return elf_damage(read, size)
    if head[:4] == _OM:
        return _of_model(read, size)
    if head[:4] == b"PK\x03\x04" and suffix != ".run":
        return _of_zip(read, size)
    if suffix == ".run":
        return _of_package(read, size)
    if suffix in (".json", ".py"):
        return _of_text(suffix, read(0, size))
    if suffix in _PROTOBUF:
        return protobuf_damage(read, size, _PROTOBUF[suffix])
    return None


def _of_text(suffix: str, data: bytes) -> str:
    """Judge a text that a toolchain reads of an operator package."""
    try:
        json.loads(data) if suffix == ".json" else ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if suffix == ".json":
            return f"is no JSON ({error})"
        return f"is no Python that can be imported ({error})"
    return ""


def elf_damage(read: Read, size: int) -> str:
    """Return why an ELF file is not whole; empty if it is."""
    try:
        check_extent(read, size)
    except ElfError as error:
        return f"is not a whole ELF object: {error} ({size} bytes are there)"
    return ""


def _of_model(read: Read, size: int) -> str:
    head = read(0, _OM_HEADER)
    if len(head) < _OM_HEADER:
        return f"is cut: {count(_OM_HEADER - len(head), 'byte')} missing"
    (length,), (longer,) = _OM_LENGTH.unpack_from(head, 76), _OM_LONG.unpack_from(head, 184)
    return _of_size(_OM_HEADER + (longer or length), size)


def _of_size(expected: int, size: int) -> str:
    if expected > size:
        return f"is cut: {count(expected - size, 'byte')} missing"
    if expected < size:
        return f"is longer than its head says, by {count(size - expected, 'byte')}"
    return ""


def _of_zip(read: Read, size: int) -> str:
    end = _zip_end(read, size)
    if end is None:
        return "is cut: a ZIP archive has its directory at the end"
    directory = _ZIP_END.unpack(read(end - _ZIP_END.size, _ZIP_END.size))
    return _of_size(end, size) or _of_size(int(directory[5]) + int(directory[6]) + 22, size)


def _zip_end(read: Read, size: int) -> int | None:
    """Return where the last end record of a ZIP archive ends, if there is one near the end."""
    start = max(size - _HEAD, 0)
    at = read(start, _HEAD).rfind(b"PK\x05\x06")
    end = start + at + _ZIP_END.size
    return end if at >= 0 and end <= size else None


def protobuf_damage(read: Read, size: int, reached: int) -> str | None:
    """Return what is wrong with a protocol buffer, by its outermost fields, each of which says
    where the next one begins; empty if it is whole and has a field ``reached`` or behind, None if
    it is none at all."""
    position, last = 0, 0
    while position < size:
        at, key = _varint(read(position, 10))
        wire, number = key & 7, key >> 3
        if at == 0 or number == 0 or wire not in (0, 1, 2, 5):
            return None if position == 0 else "is not whole: its fields do not follow each other"
        position += at
        filled = True
        if wire == 2:
            more, length = _varint(read(position, 10))
            step, filled = more + length, length > 0
        else:
            more = _varint(read(position, 10))[0]
            step = {0: more, 1: 8, 5: 4}[wire]
        if (wire in (0, 2) and more == 0) or position + step > size:
            if position == at and number != 1:
                return None  # text or another format, by its first byte
            return f"is cut: a field ends {max(position + step - size, 1)} bytes behind its end"
        position, last = position + step, max(last, number if filled else 0)
    return "" if last >= reached else "is cut: it ends before its content"


def _varint(data: bytes) -> tuple[int, int]:
    """Return the bytes of a number and its value; no bytes if there is no whole number."""
    value = 0
    for index, byte in enumerate(data):
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return index + 1, value
    return 0, value


def _of_package(read: Read, size: int) -> str | None:
    """Compare a self-extracting package with the sizes and digests in its head."""
    head = read(0, _HEAD)
    if head.startswith(b"#!") and head.partition(b"\n")[0].endswith(b"\r"):
        return WrongDigest(
            "its lines end in CR LF: it was copied as a text, and no shell runs it; "
            "copy it as it is"
        )
    if (rest := _REST.match(head)) is not None:
        digest = _digest(hashlib.sha256(), read, rest.end(), size)
        if digest != rest[1].decode() and b"PK\3\4" in head:
            end = _zip_end(read, size)
            if end is None:
                return "is cut: a ZIP archive has its directory at the end"
            if end < size:
                return _of_size(end, size)
        return _of_digest("sha256", digest, rest[1].decode())
    sizes, start = _SIZES.search(head), payload_start(head)
    if sizes is None or start is None:
        return None
    payloads = [int(each) for each in sizes[1].split()]
    if start + sum(payloads) > size:
        return f"is cut: {count(start + sum(payloads) - size, 'byte')} missing"
    for pattern, kind in _SUMS:
        found = pattern.search(head)
        if found is not None and len(payloads) == 1 and found[1].strip(b"0"):
            digest = _digest(kind(), read, start, start + payloads[0])
            return _of_digest(kind().name, digest, found[1].decode())
    if len(payloads) == 1 and (said := _CKSUM.search(head)) is not None and said[1].strip(b"0"):
        found_sum = _cksum(read, start, start + payloads[0])
        return _of_digest("cksum", str(found_sum), said[1].decode())
    return ""


def payload_start(head: bytes) -> int | None:
    """Return where the payload of a self-extracting package begins, or None if its head does not
    tell."""
    if (lines := _LINES.search(head)) is None:
        return None
    return len(head) - len(head.split(b"\n", int(lines[1] or lines[2]))[-1])


def _cksum(read: Read, start: int, end: int) -> int:
    """Return the checksum of POSIX: that of zlib with the bits of each byte in reverse, no first
    complement, and the length behind the bytes."""
    total, length = 0xFFFFFFFF, end - start
    while start < end and (part := read(start, min(_PART, end - start))):
        total = zlib.crc32(part.translate(_REVERSED), total)
        start += len(part)
    tail = length.to_bytes((length.bit_length() + 7) // 8, "little")
    return int(f"{zlib.crc32(tail.translate(_REVERSED), total):032b}"[::-1], 2)


def _of_digest(name: str, found: str, expected: str) -> str:
    if found == expected:
        return ""
    return WrongDigest(
        f"{name} of the payload is {found[:12]}..., its head says {expected[:12]}..."
    )


def _digest(total: Any, read: Read, start: int, end: int) -> str:
    while start < end and (part := read(start, min(_PART, end - start))):
        total.update(part)
        start += len(part)
    return str(total.hexdigest())
