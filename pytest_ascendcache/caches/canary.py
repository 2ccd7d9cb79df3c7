"""Canaries: marks in cached objects that tell a served kernel from a compiled one.

A canary is an ELF note added to the cached object by a byte edit; the digest in the metadata
is corrected, so the entry stays valid. A delivered kernel that carries the note came from that
entry; one that does not was compiled. Nobody has to be asked.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches.elf import add_note
from pytest_ascendcache.caches.entry import Entry, sha256

SECTION = ".note.ascendcache"
"""The section a mark sits in."""

_OWNER = "ascendcache"
_PATTERN = re.compile(rb"ascendcache-canary:([0-9a-f]{32})")


@dataclass(frozen=True)
class Canary:
    """A planted mark: its token, the entry it sits in, the object's digest before and with it, and
    its size (bytes) before."""

    token: str
    stem: str
    original_sha256: str
    marked_sha256: str
    original_size: int = 0


def plant_canary(entry: Entry) -> Canary:
    """Mark a valid entry; file times and modes stay as they were (ctime cannot).

    Raises:
        ValueError: where the entry is not valid, for a mark there would prove nothing.
    """
    problems = entry.problems()
    if problems or entry.object is None:
        raise ValueError(f"{entry.stem} is no valid entry: {'; '.join(problems)}")
    token = secrets.token_hex(16)
    before = entry.object
    marked = add_note(before, SECTION, _OWNER, f"ascendcache-canary:{token}".encode())
    digest = sha256(marked)
    metadata = {**entry.metadata, "sha256": digest}
    with _times_kept(entry.object_path), _times_kept(entry.metadata_path):
        entry.object_path.write_bytes(marked)
        entry.metadata_path.write_text(json.dumps(metadata, indent=4, sort_keys=True))
    return Canary(token, entry.stem, sha256(before), digest, len(before))


def find_canaries(data: bytes) -> frozenset[str]:
    """Tokens of the canaries that bytes carry, wherever they sit."""
    return frozenset(match.decode() for match in _PATTERN.findall(data))


@contextmanager
def _times_kept(path: Path) -> Iterator[None]:
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
