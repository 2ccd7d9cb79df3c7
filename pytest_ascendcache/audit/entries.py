"""What entries of all layouts have in common: metadata that names an object and has its digest."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import Content, Folder, is_large
from pytest_ascendcache.caches.elf import ElfError, object_size

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_TYPES: Mapping[str, type] = {
    "magic": str,
    "blockDim": int,
    "coreType": str,
    "kernelList": list,
    "opParaSize": int,
    "parameters": list,
    "workspace": dict,
}
_OPTIONAL = tuple((name, wanted, wanted()) for name, wanted in _TYPES.items())
"""Fields that are optional to a cache and fatal to its reader if they have another type. Source:
facts ``cann-operator-cache`` section 7."""

_NAMES = ("binFileName", "binFileSuffix", "headerFileSuffix")
_DECODER = json.JSONDecoder()
_VERSIONS = frozenset(
    (
        *("compiler", "compiler_version", "compilerVersion", "toolchain", "cann_version"),
        *("adk_version", "ops_version", "mindspore_version", "version"),
    )
)
"""Fields in which toolchains say what they are, where they do."""

_HEADER_SIZE = 64
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SHOWN = 12
_LONGEST = 200


@dataclass
class Toolchains:
    """Who made the kernels of one unit: how many each, and the first of each."""

    kernels: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _last: tuple[bytes, str] = (b"", "")

    def add(self, metadata: Mapping[str, Any], data: bytes, path: str) -> None:
        """Count a kernel; there are never many toolchains, but anybody can write anything."""
        comment, maker = self._last
        plain = "target" not in metadata and _VERSIONS.isdisjoint(metadata)
        # Nearly always the one before: not every object has to be taken apart.
        if not (plain and comment and comment in data):
            maker = made_by(metadata, data)
            self._last = (_comment(data) if plain else b"", maker)
        if maker and (maker in self.counts or len(self.counts) < _SHOWN):
            self.counts[maker] = self.counts.get(maker, 0) + 1
            shown = self.kernels.setdefault(maker, [])
            if len(shown) < _SHOWN:
                shown.append(path)


class Files(NamedTuple):
    """One entry's file names in a folder, metadata first, whether or not they exist."""

    ledger: Ledger
    folder: Folder
    names: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Below the audited directory."""
        return tuple(self.folder.path(name) for name in self.names)

    def blame(self, check: Check, name: str, detail: str, info: os.stat_result | None) -> None:
        """Note a fault of one of the files, seen when it was ``info``.

        Raises:
            ChangedWhileRead: where a process was writing.
        """
        self.folder.confirm(name, info)
        size = info.st_size if info is not None else 0
        self.ledger.add(check, self.folder.path(name), detail, size, self.paths)


def read_metadata(
    files: Files, name: str, info: os.stat_result | None = None
) -> tuple[Content, dict[str, Any]] | None:
    """A metadata file, or ``None`` where there is nothing to go on with, which is noted."""
    content = files.folder.read(name, info)
    if content is None:
        return None
    problem, parsed = _parse(content)
    if problem:
        files.blame(Check.METADATA, name, problem, content.info)
        return None
    return content, parsed


def _parse(content: Content) -> tuple[str, dict[str, Any]]:
    if is_large(content.info):
        return f"has {content.info.st_size} bytes: no metadata is that large", {}
    if not content.data:
        return "is empty", {}
    try:
        text = content.data.decode()
        if text.startswith("{"):  # nearly always, and at half of what loads() costs
            parsed, end = _DECODER.raw_decode(text)
            if end == len(text):
                return "", parsed
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {str(error)[:100]}", {}
    if not isinstance(parsed, dict):
        return f"is {_called(parsed)}, not a JSON object", {}
    return "", parsed


def wrong_type(metadata: Mapping[str, Any], required: Sequence[str]) -> str:
    """The first field of a type no reader expects; empty where there is none. ``required`` are
    texts."""
    for name in required:
        value = metadata.get(name)
        if type(value) is not str or not value:
            said = f"is {_called(value)}" if name in metadata else "is missing"
            return f"{name} {said}, a text is needed"
        if name == "sha256" and not _SHA256.fullmatch(value):
            return f"{name} is {value[:70]!r}, not 64 hex digits"
    for name, wanted, absent in _OPTIONAL:
        if type(value := metadata.get(name, absent)) is not wanted:
            return f"{name} is {_called(value)}, {_called(absent)} is needed"
    return ""


def _called(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    plain = {int: "a number", float: "a number", type(None): "null"}
    return {**names, **plain}[type(value)]


def leading_out(metadata: Mapping[str, Any]) -> str:
    """What is wrong with a name a reader would follow to somewhere else; empty where none is."""
    named = [(name, metadata.get(name)) for name in _NAMES]
    if isinstance(listed := metadata.get("jsonList"), list):
        parts = (each for each in listed if isinstance(each, dict))
        named += [("jsonFileName", each.get("jsonFileName")) for each in parts]
    for name, value in named:
        if type(value) is str and ("/" in value or "\0" in value or value in (".", "..")):
            return f"{name} {value[:100]!r} is no plain file name: it leads to another directory"
    return ""


def check_object(
    files: Files, name: str, expected: str, info: os.stat_result | None = None
) -> Content | None:
    """Compare an object with its digest; the object where it is right, else the fault is noted.

    What the compiler wrote is not questioned: only an object with another digest is looked into,
    for what became of it.
    """
    content = files.folder.read(name, info, digest=True)
    if content is None:
        return None
    if content.sha256 == expected.lower():
        return content
    size = content.info.st_size
    if not size:
        files.blame(Check.WHOLE_OBJECTS, name, "is empty", content.info)
    elif problem := _cut_short(content):
        files.blame(Check.WHOLE_OBJECTS, name, f"{problem} ({size} bytes are there)", content.info)
    else:
        detail = f"sha256 is {content.sha256[:12]}..., the metadata says {expected[:12].lower()}..."
        files.blame(Check.DIGESTS, name, detail, content.info)
    return None


def _cut_short(content: Content) -> str:
    if is_large(content.info):
        return ""
    try:
        object_size(content.data)
    except ElfError as error:
        return f"is not a whole ELF object: {error}"
    return ""


def made_by(metadata: Mapping[str, Any], data: bytes) -> str:
    """What a kernel says of who made it: the metadata's fields, else the object's ``.comment``."""
    target = metadata.get("target")
    for fields in (metadata, target if isinstance(target, dict) else {}):
        if not _VERSIONS.isdisjoint(fields):
            said = [f"{each} {fields[each]}" for each in sorted(_VERSIONS & {*fields})]
            return ", ".join(said)[:_LONGEST]
    return " ".join(_comment(data).replace(b"\0", b" ").decode("utf-8", "replace").split())


def _comment(data: bytes) -> bytes:
    """The ``.comment`` section, empty where there is none. The object is known to be whole."""
    if len(data) < _HEADER_SIZE or data[:6] != b"\x7fELF\x02\x01":
        return b""
    table = int.from_bytes(data[40:48], "little")
    entry, count, names = struct.unpack_from("<HHH", data, 58)
    if entry != _SECTION.size or names >= count or table + count * entry > len(data):
        return b""
    sections = list(_SECTION.iter_unpack(data[table : table + count * entry]))
    texts = sections[names][4]
    for section in sections:
        if data.startswith(b".comment\0", texts + section[0]):
            return data[section[4] : section[4] + min(section[5], _LONGEST)]
    return b""
