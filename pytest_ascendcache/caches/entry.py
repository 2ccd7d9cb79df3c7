"""Cached units, the files of a cache that are reused together, and CANN's cache entry as one.

A cache entry is a metadata file ``<stem>.json`` and the object ``<stem>.o``. Source: facts
``cann-operator-cache`` sections 1.2 and 7.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from pytest_ascendcache.caches.elf import ElfError, object_size, rename_symbol
from pytest_ascendcache.caches.snapshot import read_quietly

Unit = TypeVar("Unit", bound="CachedUnit")


@dataclass(frozen=True)
class CachedUnit:
    """Files that are reused together: the files of one kernel, or a compiled network.

    Any of the files may be missing. A subclass names their ``suffixes``, the stems they have
    (``stems``, whose group ``type`` is the operator type), and checks them in :meth:`problems`.
    """

    stem: str
    directory: Path

    suffixes: ClassVar[tuple[str, ...]]
    stems: ClassVar[re.Pattern[str]]

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Whether the name of a file is that of a unit's file."""
        return path.suffix in cls.suffixes and cls.stems.fullmatch(path.stem) is not None

    @classmethod
    def read_all(cls: type[Unit], directory: Path) -> dict[str, Unit]:
        """All units in a directory by stem, incomplete ones included.

        Other files are ignored. The result is empty if there is no such directory.
        """
        if not directory.is_dir():
            return {}
        stems = {path.stem for path in directory.iterdir() if cls.holds(path)}
        return {stem: cls(stem, directory) for stem in sorted(stems)}

    def path(self, suffix: str) -> Path:
        """The path of the file with this suffix."""
        return self.directory / f"{self.stem}{suffix}"

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files, whether or not they exist."""
        return tuple(map(self.path, self.suffixes))

    @property
    def metadata_path(self) -> Path:
        """The path of the metadata."""
        return self.path(".json")

    @property
    def object_path(self) -> Path:
        """The path of the file that the toolchain loads."""
        return self.path(".o")

    @property
    def info_path(self) -> Path:
        """The path of the description that MindSpore keeps beside a kernel."""
        return self.path(".info")

    @property
    def operator_type(self) -> str:
        """The operator type as the file name spells it; else the stem."""
        match = self.stems.fullmatch(Path(self.stem).name)
        return match["type"] if match else self.stem

    @cached_property
    def object_bytes(self) -> bytes | None:
        """The content of the ``.o`` file, or ``None`` if it cannot be read. A mark is part of it,
        if a compile was watched since the entry was stored."""
        return self.content(".o")

    if not TYPE_CHECKING:  # for a type checker the attribute does not exist

        def __getattr__(self, name: str) -> NoReturn:
            if name == "object":
                raise AttributeError(
                    f"an {type(self).__name__} has no 'object'; use object_path for the file, or "
                    "object_bytes for its content."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached_property
    def metadata(self) -> Any:
        """The parsed ``.json`` file, or ``None`` if it is missing or not JSON."""
        return _parsed(self.content(".json"))

    @cached_property
    def info(self) -> Any:
        """The parsed ``.info`` file, or ``None`` if it is missing or not JSON."""
        return _parsed(self.content(".info"))

    def content(self, suffix: str) -> bytes | None:
        """The content of the file with this suffix, or ``None`` if it cannot be read."""
        try:
            return b"".join(read_quietly(self.path(suffix)))
        except OSError:
            return None

    def problems(self) -> list[str]:
        """The reasons why the unit cannot be reused; empty for a valid one."""
        raise NotImplementedError

    @property
    def is_valid(self) -> bool:
        """Whether the unit is complete and consistent."""
        return not self.problems()

    def renamed(self, data: bytes, symbol: str) -> bytes:
        """The object ``data`` with its kernel ``symbol`` renamed to this unit's kernel.

        Raises ``ValueError`` if this unit is not valid, or ``data`` has no such symbol.
        """
        if problems := self.problems():
            raise ValueError(f"{self.stem} is not a valid kernel: {'; '.join(problems)}")
        return rename_symbol(data, symbol, self.metadata["kernelName"])


@dataclass(frozen=True)
class Entry(CachedUnit):
    """One cache entry: object and metadata."""

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".o")
    stems = re.compile(r"te_(?P<type>.+?)_[0-9a-f]{64}(?:_\w+)?(?<!_pre)", re.IGNORECASE)
    """CANN's pre-compile step leaves files ``..._pre.json``, which belong to no entry."""

    @classmethod
    def read_all(cls: type[Unit], directory: Path) -> dict[str, Unit]:
        """All entries by stem, in sub-directories by their paths. There, and under other names than
        CANN's, files are an entry if none of them is missing. A lone file beside an entry, such as
        ``..._compute.json``, is a part of it. Links are not followed."""
        found = {}
        for path, _, names in os.walk(directory):
            below = os.path.relpath(path, directory)
            there = {*names}
            stems = {name: name.rpartition(".")[0] for name in names}
            whole = {
                stem
                for stem in {*stems.values()}
                if all(f"{stem}{suffix}" in there for suffix in cls.suffixes)
            }
            for name, stem in stems.items():
                known = below == "." and cls.holds(Path(name)) and not is_beside(stem, whole)
                if known or (stem in whole and name == f"{stem}.o"):
                    key = stem if below == "." else f"{below}/{stem}"
                    found[key] = cls(key, directory)
        return dict(sorted(found.items()))

    def problems(self) -> list[str]:
        problems: list[str] = []
        data, metadata = self.object_bytes, self.metadata
        if not self.metadata_path.exists():
            problems.append("the metadata file is missing")
        elif not isinstance(metadata, dict):
            problems.append("the metadata is not a JSON object")
        else:
            problems += _wrong_fields(metadata, self.stem)
        if data is None:
            problems.append("the object file is missing")
            return problems
        try:
            object_size(data)
        except ElfError as error:
            problems.append(f"the object is not a whole ELF object: {error}")
        if isinstance(metadata, dict) and metadata.get("sha256") != sha256(data):
            problems.append("the metadata's sha256 is not the object's")
        return problems

    def put_object(self, data: bytes, symbol: str) -> None:
        """Replace the kernel by that of another operator, with digest and kernel name corrected.

        ``symbol`` is the kernel's name in ``data``. File times stay the same. Raises ``ValueError``
        if this entry is not valid, or ``data`` has no such symbol.
        """
        self.write_object(self.renamed(data, symbol))

    def write_object(self, data: bytes) -> None:
        """Replace the object, and correct the digest in the metadata. File times stay the same."""
        with _times_kept(self.object_path), _times_kept(self.metadata_path):
            self.object_path.write_bytes(data)
            self.metadata_path.write_bytes(metadata_text(self.metadata, sha256=sha256(data)))


read_entries = Entry.read_all
"""All entries of one SoC's directory by stem."""


def entries_in_place(directory: Path) -> dict[str, Entry]:
    """All entries, except for damaged ones that a toolchain keeps in a directory of their own
    beside those that replaced them."""
    found = read_entries(directory)
    times = Counter(map(_name_of, found))
    return {
        key: each
        for key, each in found.items()
        if "/" not in key or times[_name_of(key)] == 1 or not each.problems()
    }


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]


def _wrong_fields(metadata: dict[str, Any], stem: str) -> Iterator[str]:
    if metadata.get("binFileName") != Path(stem).name:
        yield f"binFileName is {metadata.get('binFileName')!r}, not the file's own stem"
    if metadata.get("binFileSuffix") != ".o":
        yield f"binFileSuffix is {metadata.get('binFileSuffix')!r}, not '.o'"
    if not isinstance(metadata.get("kernelName"), str) or not metadata["kernelName"]:
        yield f"kernelName is {metadata.get('kernelName')!r}, not a name"


def _parsed(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"")
    except (ValueError, RecursionError):
        return None


def is_beside(stem: str, whole: Collection[str]) -> bool:
    """Whether a file of this stem belongs to one of the ``whole`` entries, or to none: its stem is
    that of an entry with a word behind it. CANN's pre-compile step leaves ``..._pre.json``."""
    words = stem.split("_")
    places = range(1, len(words))
    beside = any("_".join(words[:place]) in whole for place in places)
    return stem.endswith("_pre") or (beside and stem not in whole)


def sha256(data: bytes) -> str:
    """A digest as metadata spells it: 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def metadata_text(metadata: dict[str, Any], **changes: str) -> bytes:
    """A metadata file with some fields changed, in CANN's format."""
    return json.dumps({**metadata, **changes}, indent=4, sort_keys=True).encode()


def rewrite(path: Path, content: bytes) -> None:
    """Replace a file, even a read-only one. Its mode and times stay the same."""
    before = path.stat()
    path.unlink()
    path.write_bytes(content)
    path.chmod(before.st_mode & 0o7777)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextmanager
def _times_kept(path: Path) -> Iterator[None]:
    """Restore a file's access and modification time afterwards."""
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
