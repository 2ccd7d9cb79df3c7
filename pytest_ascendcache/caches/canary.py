"""Canaries: notes in cached objects that tell a reused kernel from a compiled one.

A canary is an ELF note that is added to the cached object; the digest in the metadata is
corrected, so the entry stays valid. A delivered kernel with the note was reused from that entry;
a kernel without it was compiled. The toolchain need not be asked.

Kernels are compared regardless of canaries and of their names: CANN names a kernel's symbol after
its cache key, and a compiler may leave notes about its build. So objects with equal code may differ
in bytes. Source: facts ``cann-operator-cache`` section 1.2.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_ascendcache.caches.elf import ElfError, add_note, functions, named_sections
from pytest_ascendcache.caches.entry import Entry, sha256

SECTION = ".note.ascendcache"
"""The name of the section that holds the note."""

_OWNER = "ascendcache"
_PATTERN = re.compile(rb"ascendcache-canary:([0-9a-f]{32})")
_KEYED_NAME = re.compile(rb"te_\w+?_[0-9a-f]{64}")
_NOTES = re.compile(rb"\.note.*|\.comment")
_LONG = 16
"""Characters of a name that may hold a cache key, in whatever form a toolchain writes it."""


@dataclass(frozen=True)
class Canary:
    """A canary in an entry: its token, the entry's stem, the object's digest without and with it,
    and the object without it, with its size in bytes."""

    token: str
    stem: str
    original_sha256: str
    marked_sha256: str
    original_size: int = 0
    original: bytes = field(default=b"", repr=False)


def plant_canary(entry: Entry) -> Canary:
    """Mark a valid entry. File times and modes stay the same, except the change time.

    Raises ``ValueError`` if the entry is not valid, because then a mark would prove nothing.
    """
    problems = entry.problems()
    if problems or entry.object_bytes is None:
        raise ValueError(f"{entry.stem} is not a valid entry: {'; '.join(problems)}")
    token = secrets.token_hex(16)
    before = entry.object_bytes
    marked = add_note(before, SECTION, _OWNER, f"ascendcache-canary:{token}".encode())
    entry.write_object(marked)
    return Canary(token, entry.stem, sha256(before), sha256(marked), len(before), before)


def find_canaries(data: bytes) -> frozenset[str]:
    """The tokens of all canaries anywhere in ``data``."""
    return frozenset(match.decode() for match in _PATTERN.findall(data))


def kernel_code(data: bytes) -> object:
    """The part of an object that decides how it computes, equal for objects of equal code.

    It is all sections except notes, with cache keys and the long names of functions removed; a
    canary does not change it. Data that is not a complete ELF object is returned unchanged.
    """
    try:
        sections = named_sections(data)
        long = [each.encode() for each in functions(data) if len(each) >= _LONG]
    except ElfError:
        return data
    return tuple(
        (_plain(name, long), kind, flags, _plain(content, long))
        for name, kind, flags, content in sections
        if not _NOTES.fullmatch(name)
    )


def same_code(one: bytes, other: bytes) -> bool:
    return one == other or kernel_code(one) == kernel_code(other)


def _plain(content: bytes, names: Iterable[bytes]) -> bytes:
    """Remove cache keys from names, and the name that a canary adds to the table of names."""
    for name in names:
        content = content.replace(name, b"te_")
    return _KEYED_NAME.sub(b"te_", content).replace(f"{SECTION}\0".encode(), b"")
