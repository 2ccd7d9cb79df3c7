"""One cache entry, and whether it is whole.

An entry is a metadata file ``<stem>.json`` and the object it names. Source: facts
``cann-operator-cache`` sections 1.2 and 7.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches.elf import ElfError, object_size
from pytest_ascendcache.caches.snapshot import read_quietly

_STEM = re.compile(r"te_(?P<type>.+?)_[0-9a-f]{64}(?P<more>_\w+)?$", re.IGNORECASE)
_PRE_COMPILE = "_pre.json"


@dataclass(frozen=True)
class Entry:
    """The files of one entry. Either may be missing: then it is half an entry."""

    stem: str
    directory: Path

    @cached_property
    def metadata_path(self) -> Path:
        """The ``.json`` file."""
        return self.directory / f"{self.stem}.json"

    @cached_property
    def object_path(self) -> Path:
        """The ``.o`` file, where the layout puts it."""
        return self.directory / f"{self.stem}.o"

    @property
    def operator_type(self) -> str:
        """The operator type as the file name spells it: lower case."""
        match = _STEM.match(self.stem)
        return match["type"] if match else self.stem

    @cached_property
    def object(self) -> bytes | None:
        """The object's bytes, or ``None`` where there is none."""
        try:
            return b"".join(read_quietly(self.object_path))
        except OSError:
            return None

    @cached_property
    def metadata(self) -> Any:
        """The parsed metadata, or ``None`` where it is missing or not JSON."""
        try:
            return json.loads(b"".join(read_quietly(self.metadata_path)))
        except (OSError, ValueError, RecursionError):
            return None

    def problems(self) -> list[str]:
        """What keeps this from being a whole entry; empty for a valid one."""
        found: list[str] = []
        data, metadata = self.object, self.metadata
        if not self.metadata_path.exists():
            found.append("the metadata file is missing")
        elif not isinstance(metadata, dict):
            found.append("the metadata is not a JSON object")
        else:
            found += _wrong_fields(metadata, self.stem)
        if data is None:
            found.append("the object file is missing")
            return found
        try:
            object_size(data)
        except ElfError as error:
            found.append(f"the object is not a whole ELF object: {error}")
        if isinstance(metadata, dict) and metadata.get("sha256") != sha256(data):
            found.append("the metadata's sha256 is not the object's")
        return found

    @property
    def is_valid(self) -> bool:
        """Whether nothing keeps the entry from being used."""
        return not self.problems()


def _wrong_fields(metadata: dict[str, Any], stem: str) -> list[str]:
    found = []
    if metadata.get("binFileName") != stem:
        found.append(f"binFileName is {metadata.get('binFileName')!r}, not the file's own stem")
    if metadata.get("binFileSuffix") != ".o":
        found.append(f"binFileSuffix is {metadata.get('binFileSuffix')!r}, not '.o'")
    if not isinstance(metadata.get("kernelName"), str) or not metadata["kernelName"]:
        found.append(f"kernelName is {metadata.get('kernelName')!r}, not a name")
    return found


def sha256(data: bytes) -> str:
    """Digest as metadata spells it: 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def read_entries(directory: Path) -> dict[str, Entry]:
    """Every entry of one SoC directory by stem, halves included; empty without a directory.

    Only names of kernels count, ``te_<type>_<64 hex digits>`` and what follows; a toolchain may
    keep other files beside its entries.
    """
    if not directory.is_dir():
        return {}
    stems = {
        each.stem
        for each in directory.iterdir()
        if each.suffix in {".json", ".o"}
        and _STEM.match(each.stem)
        and not each.name.endswith(_PRE_COMPILE)
    }
    return {stem: Entry(stem, directory) for stem in sorted(stems)}
