"""What entries of all layouts have in common: metadata that names an object and has its digest."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import Content, Folder, is_large
from pytest_ascendcache.cachedir.elf import ElfError, object_size

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "magic": (str,),
    "blockDim": (int,),
    "coreType": (str,),
    "kernelList": (list,),
    "opParaSize": (int,),
    "parameters": (list,),
    "workspace": (dict,),
}
"""Fields that are optional to a cache and fatal to its reader if they have another type. Source:
facts ``cann-operator-cache`` section 7."""

_NAMES = ("binFileName", "binFileSuffix", "headerFileSuffix")
_VERSIONS = (
    *("compiler", "compiler_version", "compilerVersion", "toolchain", "cann_version"),
    *("adk_version", "ops_version", "mindspore_version", "version"),
)
"""Fields in which toolchains say what they are, where they do."""

_HEADER_SIZE = 64
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SHOWN = 12


@dataclass
class Toolchains:
    """Who made the kernels of one unit: how many each, and the first of each."""

    kernels: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, made_by: str, path: str) -> None:
        """Count a kernel; there are never many toolchains, but anybody can write anything."""
        if made_by in self.counts or len(self.counts) < _SHOWN:
            self.counts[made_by] = self.counts.get(made_by, 0) + 1
            shown = self.kernels.setdefault(made_by, [])
            if len(shown) < _SHOWN:
                shown.append(path)


@dataclass(frozen=True)
class Files:
    """The files of one entry in a folder: all names, the metadata's first; there or not."""

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
            ChangedWhileRead: where somebody was writing.
        """
        self.folder.confirm(name, info)
        size = info.st_size if info is not None else 0
        self.ledger.add(check, self.folder.path(name), detail, size, self.paths)


def read_metadata(files: Files, name: str) -> tuple[Content, dict[str, Any]] | None:
    """A metadata file, or ``None`` where there is nothing to go on with, which is noted."""
    content = files.folder.read(name)
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
        parsed = json.loads(content.data)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {str(error)[:100]}", {}
    if not isinstance(parsed, dict):
        return f"is {_called(parsed)}, not a JSON object", {}
    return "", parsed


def wrong_types(metadata: Mapping[str, Any], required: Sequence[str]) -> Iterator[str]:
    """What of the fields has a type no reader expects. ``required`` are texts."""
    for name in required:
        value = metadata.get(name)
        if not isinstance(value, str) or not value:
            said = f"is {_called(value)}" if name in metadata else "is missing"
            yield f"{name} {said}, a text is needed"
        elif name.lower().endswith("sha256") and not _SHA256.fullmatch(value):
            yield f"{name} is {value[:70]!r}, not 64 hex digits"
    for name, types in _TYPES.items():
        value = metadata.get(name, types[0]())
        if not isinstance(value, types) or isinstance(value, bool):
            yield f"{name} is {_called(value)}, {_called(types[0]())} is needed"


def _called(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    plain = {int: "a number", float: "a number", type(None): "null"}
    return {**names, **plain}[type(value)]


def leading_out(metadata: Mapping[str, Any], extra: Sequence[object] = ()) -> Iterator[str]:
    """Names in metadata a reader would follow to somewhere else."""
    listed = metadata.get("jsonList")
    parts = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    named = [(name, metadata.get(name)) for name in _NAMES]
    named += [("jsonFileName", each.get("jsonFileName")) for each in parts]
    named += [("name", each) for each in extra]
    for name, value in named:
        if isinstance(value, str) and ("/" in value or "\0" in value or value in (".", "..")):
            yield f"{name} {value[:100]!r} is no plain file name: it leads to another directory"


def check_object(files: Files, name: str, expected: str) -> Content | None:
    """Compare an object with its digest; the object where it is right, else the fault is noted.

    What the compiler wrote is not questioned: only an object with another digest is looked into,
    for what became of it.
    """
    content = files.folder.read(name, digest=True)
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
    fields = {**(target if isinstance(target, dict) else {}), **metadata}
    said = [f"{name} {fields[name]}" for name in _VERSIONS if isinstance(fields.get(name), str)]
    if said:
        return ", ".join(said)
    return " ".join(_comment(data).replace(b"\0", b" ").decode("utf-8", "replace").split())[:200]


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
            return data[section[4] : section[4] + section[5]]
    return b""
