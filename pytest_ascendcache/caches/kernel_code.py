"""Whether two kernel objects are the same code, whatever they are called.

CANN names a kernel's symbol after its cache key, and a compiler may leave notes about its build:
objects of equal code then differ in bytes. Source: facts ``cann-operator-cache`` section 1.2.
"""

from __future__ import annotations

import re

from pytest_ascendcache.caches.canary import SECTION
from pytest_ascendcache.caches.elf import ElfError, named_sections

_KEYED_NAME = re.compile(rb"te_\w+?_[0-9a-f]{64}")
_NOTES = re.compile(rb"\.note.*|\.comment")


def kernel_code(data: bytes) -> object:
    """What of an object says how it computes: its sections but for notes, names without keys.

    Equal for two objects of equal code, marked ones too. Bytes that are no whole ELF object are
    their own code.
    """
    try:
        sections = named_sections(data)
    except ElfError:
        return data
    return tuple(
        (_plain(name), kind, flags, _plain(content))
        for name, kind, flags, content in sections
        if not _NOTES.fullmatch(name)
    )


def same_code(one: bytes, other: bytes) -> bool:
    """Whether two kernels compute the same by the same code."""
    return one == other or kernel_code(one) == kernel_code(other)


def _plain(content: bytes) -> bytes:
    """Without keys in names, and without the name that a mark adds to the table of names."""
    return _KEYED_NAME.sub(b"te_", content).replace(f"{SECTION}\0".encode(), b"")
