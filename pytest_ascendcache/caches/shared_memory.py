"""System V shared memory that MindSpore's kernel builds leave behind, and its removal.

Source: facts ``mindspore-incremental`` section 1.5: the key is the low half of the C++ library's
hash of the cache path. A sandbox's path is unique, so the key shows which segments belong to it.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

_MASK, _MULTIPLIER, _SEED = (1 << 64) - 1, 0xC6A4A7935BD1E995, 0xC70F6907
_TABLE = Path("/proc/sysvipc/shm")
_IPC_RMID = 0


@dataclass(frozen=True)
class Segment:
    """A segment, and the number of processes that are attached to it."""

    number: int
    attached: int


def segments_of(cache: Path) -> list[Segment]:
    """The segments of builds in the cache directory ``cache``."""
    key = key_of(os.fsencode(cache))
    try:
        rows = [line.split() for line in _TABLE.read_text().splitlines()[1:]]
    except OSError:
        return []
    # key, number, mode, bytes, creator, last user, attached, ...
    return [Segment(int(row[1]), int(row[6])) for row in rows if int(row[0]) & 0xFFFFFFFF == key]


def remove_segments(cache: Path) -> None:
    """Remove the segments of builds in ``cache``. All its processes must have ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    for segment in segments_of(cache):
        libc.shmctl(segment.number, _IPC_RMID, None)


def key_of(path: bytes) -> int:
    """The key of the segments of builds in a cache directory."""
    return _hash(path) & 0xFFFFFFFF


def _hash(data: bytes) -> int:
    """libstdc++'s ``std::hash`` of a string on 64-bit machines (MurmurHash64A)."""

    def mixed(value: int) -> int:
        return value ^ (value >> 47)

    whole = len(data) & ~7
    result = _SEED ^ (len(data) * _MULTIPLIER & _MASK)
    for place in range(0, whole, 8):
        word = int.from_bytes(data[place : place + 8], "little")
        word = mixed(word * _MULTIPLIER & _MASK) * _MULTIPLIER & _MASK
        result = (result ^ word) * _MULTIPLIER & _MASK
    if len(data) & 7:
        result = (result ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    return mixed(mixed(result) * _MULTIPLIER & _MASK)
