"""What metadata says, compared with itself, with its file's name and place, and with its object.

Names, digests and chips of the field differ in spelling, so only what contradicts is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.chips import QUOTED_CHIP, is_same_chip
from pytest_ascendcache.caches.elf import ElfError, functions, named_sections

_DIGEST = re.compile(r"[0-9a-f]{32,64}|(?<=_)\d{8,20}(?=_|$)", re.IGNORECASE)
"""The part of a kernel's name that tells it from others: hex digits, or MindSpore's number."""

_NAME = b'"kernelName"'
"""A key that is also in lists, once for each core."""


def foreign_name(fields: Mapping[str, Any], stem: str, data: bytes, folder: Folder) -> str:
    """Return why a kernel is not the one that its file is named after; empty if it may be. Old CANN
    gives a function another digest than its file: then the object exports that function, for the
    same operator, and no other file is named after it."""
    own = _DIGEST.search(stem)
    for name in () if is_plain(fields, stem) else kernel_names(fields):
        digest = _DIGEST.search(name)
        if own is None or digest is None or digest[0].lower() == own[0].lower():
            continue
        root = name.partition("__kernel")[0]
        owners = (root, re.sub(r"_\d+$", "", root))
        operator, same = name[: digest.start()].lower(), stem[: own.start()].lower()
        alone = not any(folder.has(f"{each}.json") for each in owners)
        if not (operator == same and alone and name in _exported(data)):
            return f"kernelName is {name[:90]!r}: another kernel's"
    return ""


def _exported(data: bytes) -> tuple[str, ...]:
    try:
        return functions(data)
    except ElfError:
        return ()


def disagreement(fields: Mapping[str, Any], text: bytes, chip: str) -> str:
    """Return what metadata says that contradicts itself or the directory of a ``chip``; empty if
    nothing does. ``text`` is the metadata as it is in its file."""
    again = text.count(b'"sha256"') > 1 or text.count(b'"binFile') > 2 or text.count(_NAME) > 1
    if again and (twice := _given_twice(text)):
        return twice
    said = [each[1].decode() for each in QUOTED_CHIP.finditer(text)] if chip else []
    if said and not any(is_same_chip(each, chip) for each in said):
        return f"is for {said[0][:40]}, and the directory is of {chip}"
    workspace = fields.get("workspace")
    if isinstance(workspace, dict):
        number, sizes = workspace.get("num"), workspace.get("size")
        if type(number) is int and isinstance(sizes, list) and len(sizes) not in (0, number):
            return f"has {number} workspaces and the sizes of {len(sizes)}"
    return ""


def is_plain(fields: Mapping[str, Any], stem: str) -> bool:
    """Return whether metadata names one kernel, after its own file: the usual case."""
    name = fields.get("kernelName")
    return type(name) is str and name.startswith(stem) and "kernelList" not in fields


def missing_symbol(fields: Mapping[str, Any], data: bytes) -> str:
    """Return why an object cannot have the kernel its metadata names; empty if it can. In code that
    was stripped of its symbols no loader finds it; an object without code or sections says
    nothing."""
    # Tools add to a name: an object that contains its root is not examined further.
    roots = {name.partition("__kernel")[0]: name for name in kernel_names(fields)}
    names = {root: name for root, name in roots.items() if root.encode() not in data}
    if not names:
        return ""
    try:
        exported = functions(data)
        has_code = any(flags & 4 and code for _, _, flags, code in named_sections(data))
    except ElfError:
        return ""
    for name in names.values() if exported or has_code else ():
        if not any(each in name for each in exported):
            if not exported:
                return f"has no function {name[:90]}: it exports none"
            return f"has no function {name[:90]}, only {exported[0][:90]}"
    return ""


def kernel_names(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of functions that metadata gives."""
    if isinstance(name := fields.get("kernelName"), str) and name:
        yield name
    listed = fields.get("kernelList")
    for each in listed if isinstance(listed, list) else ():
        name = each.get("kernelName") if isinstance(each, dict) else None
        if isinstance(name, str) and name:
            yield name


def _given_twice(text: bytes) -> str:
    found: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in pairs:
            if fields.setdefault(key, value) != value:
                found.append(key)
        return fields

    try:
        json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return ""  # reported when it was read
    return f"gives {found[0][:40]} twice, and differently" if found else ""
