"""Comparing the code of two kernel objects regardless of their names.

CANN names a kernel's symbol after its cache key, and a compiler may leave notes about its build.
So objects with equal code may differ in bytes. Source: facts ``cann-operator-cache`` section 1.2.
"""

from __future__ import annotations

import re

from pytest_ascendcache.caches.canary import SECTION
from pytest_ascendcache.caches.elf import ElfError, named_sections

_KEYED_NAME = re.compile(rb"te_\w+?_[0-9a-f]{64}")
_NOTES = re.compile(rb"\.note.*|\.comment")


def kernel_code(data: bytes) -> object:
    """The part of an object that decides how it computes, equal for objects of equal code.

    It is all sections except notes, with cache keys removed from names; a canary does not change
    it. Data that is not a complete ELF object is returned unchanged.
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
    return one == other or kernel_code(one) == kernel_code(other)


def _plain(content: bytes) -> bytes:
    """Remove cache keys from names, and the name that a canary adds to the table of names."""
    return _KEYED_NAME.sub(b"te_", content).replace(f"{SECTION}\0".encode(), b"")
