"""Canaries: notes in cached objects that tell a reused kernel from a compiled one.

A canary is an ELF note that is added to the cached object; the digest in the metadata is
corrected, so the entry stays valid. A delivered kernel with the note was reused from that entry;
a kernel without it was compiled. The toolchain need not be asked.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from pytest_ascendcache.caches.elf import add_note
from pytest_ascendcache.caches.entry import Entry, sha256

SECTION = ".note.ascendcache"
"""The name of the section that holds the note."""

_OWNER = "ascendcache"
_PATTERN = re.compile(rb"ascendcache-canary:([0-9a-f]{32})")


@dataclass(frozen=True)
class Canary:
    """A canary in an entry: its token, the entry's stem, the object's digest without and with it,
    and the object's size in bytes without it."""

    token: str
    stem: str
    original_sha256: str
    marked_sha256: str
    original_size: int = 0


def plant_canary(entry: Entry) -> Canary:
    """Mark a valid entry. File times and modes stay the same, except the change time.

    Raises:
        ValueError: if the entry is not valid, because then a mark would prove nothing.
    """
    problems = entry.problems()
    if problems or entry.object is None:
        raise ValueError(f"{entry.stem} is not a valid entry: {'; '.join(problems)}")
    token = secrets.token_hex(16)
    before = entry.object
    marked = add_note(before, SECTION, _OWNER, f"ascendcache-canary:{token}".encode())
    entry.write_object(marked)
    return Canary(token, entry.stem, sha256(before), sha256(marked), len(before))


def find_canaries(data: bytes) -> frozenset[str]:
    """The tokens of all canaries anywhere in ``data``."""
    return frozenset(match.decode() for match in _PATTERN.findall(data))
