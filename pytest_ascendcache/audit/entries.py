"""What the entries of all layouts share: metadata that names an object and records its digest."""

from __future__ import annotations

import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import CannotRead, Content, FirstFew, Folder, is_large
from pytest_ascendcache.audit.whole import WrongDigest, damage, elf_damage
from pytest_ascendcache.caches.chips import CHIP, is_same_chip
from pytest_ascendcache.caches.elf import MAGIC, ElfError, named_sections
from pytest_ascendcache.caches.recognition import split

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_OPTIONAL = {
    "magic": "",
    "blockDim": 0,
    "coreType": "",
    "kernelList": [],
    "opParaSize": 0,
    "parameters": [],
    "workspace": {},
}
"""Optional fields of metadata, each with a value of its type. A field of another type makes the
reader fail. Source: facts ``cann-operator-cache`` section 7."""

_NAMES = ("binFileName", "binFileSuffix", "headerFileSuffix")
_DECODER = json.JSONDecoder()
_VERSIONS = frozenset(
    (
        *("compiler", "compiler_version", "compilerVersion", "toolchain", "cann_version"),
        *("adk_version", "ops_version", "mindspore_version", "version", "versions"),
    )
)
"""Fields in which a toolchain may record its name or version."""

_SHOWN = 12
_few = partial(FirstFew, most=_SHOWN)
_LONGEST = 200


class EntryProblem(Exception):
    """An entry breaks a rule. ``info`` is the state in which the blamed file was judged."""

    def __init__(
        self, files: Files, check: Check, name: str, detail: str, info: os.stat_result
    ) -> None:
        super().__init__(detail)
        self.files, self.check, self.name, self.info = files, check, name, info

    def report(self, ledger: Ledger) -> None:
        """Enter the problem in the ledger. Raises ``ChangedWhileRead`` if the blamed file is no
        longer what was judged."""
        folder, names = self.files
        folder.confirm(self.name, self.info)
        remove = tuple(folder.path(name) for name in names)
        ledger.add(self.check, folder.path(self.name), str(self), self.info.st_size, remove)


@contextmanager
def reported(ledger: Ledger) -> Iterator[None]:
    """Report the problem that ends the block, if one does."""
    try:
        yield
    except EntryProblem as problem:
        problem.report(ledger)


@dataclass
class EntryJudge(ABC):
    """Judges the files of one unit: one SoC's cache, one rank's kernels, one compile's outputs.

    ``alone`` are names of files without which, by themselves, an entry cannot be used.
    """

    alone: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    ledger: Ledger
    entries: int = 0

    @property
    def untold(self) -> str:
        """What of the files nothing tells whether they are whole; empty if something tells it."""
        return ""

    @abstractmethod
    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        """Judge one regular file; an entry is judged once, at its metadata if it has any. Returns
        whether the file is part of an entry. Raises ``EntryProblem`` if the entry breaks a rule,
        and ``CannotRead`` or ``ChangedWhileRead`` if a file cannot be judged."""

    def no_file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        """Return whether what is no regular file is in the place of an entry's file, for which the
        entry is blamed. Raises ``EntryProblem`` unless that happens at another file of it."""
        if self.alone.fullmatch(name) is not None:
            detail = f"is {kind_of(info)}, no file that a toolchain may read"
            raise Files(folder, ()).blame(Check.WHOLE_ENTRIES, name, detail, info)
        return False


@dataclass
class Toolchains:
    """The kernels of a unit by the toolchains that made them, those by the machines of the objects,
    as their ELF headers number them, and those that are ``debugged``: with debugging information.
    """

    makers: defaultdict[str, FirstFew] = field(default_factory=lambda: defaultdict(_few))
    machines: defaultdict[int, FirstFew] = field(default_factory=lambda: defaultdict(_few))
    debugged: FirstFew = field(default_factory=_few)
    _last: tuple[bytes, str] = (b"", "")

    def add(self, metadata: Mapping[str, Any], data: bytes, path: str) -> None:
        """Count the kernel ``data``. Its metadata can name anything, so makers are limited."""
        self.machines[int.from_bytes(data[18:20], "little")].add(path)
        if b".debug_info" in data:
            self.debugged.add(path)
        comment, maker = self._last
        plain = "target" not in metadata and _VERSIONS.isdisjoint(metadata)
        # Nearly every kernel has the maker of the one before, which saves parsing its ELF file.
        if not (plain and comment and comment in data):
            maker = made_by(metadata, data)
            self._last = (_comment(data) if plain else b"", maker)
        if maker and (maker in self.makers or len(self.makers) < _SHOWN):
            self.makers[maker].add(path)


class Files(NamedTuple):
    """The names of one entry's files in a folder, whether or not they exist, which are removed
    together; without names, no removal is suggested."""

    folder: Folder
    names: tuple[str, ...]

    def blame(self, check: Check, name: str, detail: str, info: os.stat_result) -> EntryProblem:
        """Make the problem of the file ``name``, to be raised."""
        return EntryProblem(self, check, name, detail, info)

    def lacks(self, name: str) -> str:
        """Return why an entry has no file ``name``; empty if there is a regular one."""
        info = self.folder.look(name)
        if info is None:
            return f"{name} is missing"
        return "" if stat.S_ISREG(info.st_mode) else f"{name} is {kind_of(info)}"


def kind_of(info: os.stat_result) -> str:
    """Return what something is that is no regular file, in words."""
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a directory",
    }
    return kinds.get(stat.S_IFMT(info.st_mode), "a device")


class Metadata(NamedTuple):
    """The fields of a metadata file, and the file's state when it was read."""

    files: Files
    name: str
    info: os.stat_result
    fields: dict[str, Any]
    text: bytes = b""

    def blame(self, check: Check, detail: str) -> EntryProblem:
        """Make a problem of the metadata file, to be raised."""
        return self.files.blame(check, self.name, detail, self.info)

    def require(self, texts: Sequence[str]) -> None:
        """Check that the fields ``texts`` are strings and optional fields have their type. Raises
        ``EntryProblem`` for the first field of another type."""
        if problem := _wrong_type(self.fields, texts):
            raise self.blame(Check.METADATA, problem)

    def require_plain_names(self) -> None:
        """Check that no name leads a reader to another directory. Raises ``EntryProblem`` for the
        first name that does."""
        named = [(name, self.fields.get(name)) for name in _NAMES]
        if isinstance(listed := self.fields.get("jsonList"), list):
            parts = (each for each in listed if isinstance(each, dict))
            named += [("jsonFileName", each.get("jsonFileName")) for each in parts]
        for name, value in named:
            if type(value) is str and ("/" in value or "\0" in value or value in (".", "..")):
                shown = value[:100]
                detail = f"{name} {shown!r} is not a plain file name: it leads to another directory"
                raise self.blame(Check.NAMES_INSIDE, detail)


def read_metadata(files: Files, name: str, info: os.stat_result | None = None) -> Metadata | None:
    """Read a metadata file; returns None if there is no regular file of that name. Raises
    ``EntryProblem`` if the file is not a JSON object."""
    content = files.folder.read(name, info)
    if content is None:
        return None
    problem, fields = _parse(content)
    if problem:
        raise files.blame(Check.METADATA, name, problem, content.info)
    return Metadata(files, name, content.info, fields, content.data)


def _parse(content: Content) -> tuple[str, dict[str, Any]]:
    if is_large(content.info):
        return f"has {content.info.st_size} bytes: no metadata is that large", {}
    if not content.data:
        return "is empty", {}
    try:
        text = content.data.decode()
        if text.startswith("{"):  # the usual case, at half the cost of loads()
            parsed, end = _DECODER.raw_decode(text)
            if end == len(text):
                return "", parsed
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {str(error)[:100]}", {}
    if not isinstance(parsed, dict):
        return f"is {_type_name(parsed)}, not a JSON object", {}
    return "", parsed


def _wrong_type(metadata: Mapping[str, Any], texts: Sequence[str]) -> str:
    for name in texts:
        value = metadata.get(name)
        if type(value) is not str or not value:
            state = f"is {_type_name(value)}" if name in metadata else "is missing"
            return f"{name} {state}, a text is needed"
        if name.lower().endswith("sha256") and not _SHA256.fullmatch(value):
            return f"{name} is {value[:70]!r}, not 64 hex digits"
    for name, example in _OPTIONAL.items():
        if type(value := metadata.get(name, example)) is not type(example):
            return f"{name} is {_type_name(value)}, {_type_name(example)} is needed"
    keys: set[int] = set()
    for each in metadata.get("kernelList", ()):
        key = each.get("tilingKey") if isinstance(each, dict) else None
        if key is not None and type(key) is not int:
            return f"a tilingKey is {str(key)[:40]!r}, a whole number is needed"
        if key in keys:
            return f"the tilingKey {key} is there twice"
        keys |= set() if key is None else {key}
    return ""


def _type_name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")


def check_object(
    files: Files,
    name: str,
    metadata: Mapping[str, Any],
    info: os.stat_result | None = None,
    key: str = "sha256",
) -> Content | None:
    """Read an object whose ``metadata`` records its digest as ``key``; None if there is no file.
    Its own format is judged, too: a digest may have been written for what was left of it. Raises
    ``EntryProblem``."""
    content = files.folder.read(name, info, digest=True)
    if content is None:
        return None
    info, size = content.info, content.info.st_size
    if not size:
        raise files.blame(Check.WHOLE_OBJECTS, name, "is empty", info)
    expected = metadata[key].lower()
    if not is_large(info):
        data = content.data
        is_other = content.sha256 != expected and name.endswith((".o", ".so"))
        if data[:4] == MAGIC[:4] or is_other or "_ELF" in str(metadata.get("magic")):
            problem = elf_damage(lambda offset, count: data[offset : offset + count], size)
            if problem:
                raise files.blame(Check.WHOLE_OBJECTS, name, problem, info)
    else:
        check_whole(files, name, info)
    if content.sha256 != expected:
        detail = f"sha256 is {content.sha256[:12]}..., the metadata says {expected[:12]}..."
        raise files.blame(Check.DIGESTS, name, detail, info)
    return content


def check_whole(files: Files, name: str, info: os.stat_result) -> None:
    """Judge a file by its own format. Raises ``EntryProblem`` if it is not whole, and
    ``CannotRead`` if it has no format that says so."""
    files.folder.check_size(name, info, to_its_end=name.endswith(".run"))
    with files.folder.opened(name, info) as descriptor:
        problem = damage(
            split(name)[1], lambda at, count: os.pread(descriptor, count, at), info.st_size
        )
    if problem:
        wrong = isinstance(problem, WrongDigest)
        raise files.blame(Check.DIGESTS if wrong else Check.WHOLE_OBJECTS, name, problem, info)
    if problem is None and not is_large(info):
        raise CannotRead(f"{files.folder.path(name)}: has no format that this audit knows")


def made_by(metadata: Mapping[str, Any], data: bytes) -> str:
    """Return a kernel's toolchain from its metadata, or from the object's ``.comment`` section."""
    target = metadata.get("target")
    fields = {**(target if isinstance(target, dict) else {}), **metadata}
    if versions := sorted(_VERSIONS & {*fields}):
        said = ", ".join(f"{each} {fields[each]}" for each in versions)[:_LONGEST]
        return " ".join(said.split())
    return " ".join(_comment(data).replace(b"\0", b" ").decode("utf-8", "replace").split())


def other_chip(maker: str, chip: str) -> str:
    """Return the chip that a maker's name has, if it has none that is ``chip``; empty otherwise."""
    said: list[str] = CHIP.findall(maker)
    return said[0] if said and not any(is_same_chip(each, chip) for each in said) else ""


def _comment(data: bytes) -> bytes:
    """Return the start of an object's ``.comment`` section; empty if it has none."""
    try:
        sections = named_sections(data)
    except ElfError:
        return b""
    return next((text[:_LONGEST] for name, _, _, text in sections if name == b".comment"), b"")
