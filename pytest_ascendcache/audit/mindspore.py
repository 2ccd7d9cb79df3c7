"""MindSpore's caches: kernels of a rank (``kernel_meta``) and of AKG (``akg_kernel_meta``), graphs.

Source: document M; facts ``mindspore-incremental`` sections 1.2, 1.3, 1.7 and 2.2.
"""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pytest_ascendcache.audit.agreement import (
    disagreement,
    foreign_name,
    missing_symbol,
)
from pytest_ascendcache.audit.entries import (
    EntryJudge,
    Files,
    Metadata,
    Toolchains,
    check_object,
    check_whole,
    kind_of,
    read_metadata,
    reported,
)
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.reading import Folder, numbers, short
from pytest_ascendcache.caches.chips import QUOTED_CHIP
from pytest_ascendcache.caches.recognition import GRAPH_FILE, KERNEL_STEM, split

_RANK_SUFFIXES = (".json", ".o", ".so", ".info")
_AKG_SUFFIXES = (".json", ".o", ".so", ".ptx", ".info")
_DIGEST = re.compile(rb"[0-9a-f]{64}\n?")
_NAMED = re.compile(rb'"(\w{1,240}_\d{1,4})"', re.ASCII)
"""What may be a kernel's name in a compile request."""

_OWN = re.compile(r"name|device|(?:^|[._])id$", re.IGNORECASE)
"""Keys of what each kernel or card has of its own."""

_DEEPEST, _LONGEST = 3, 100
"""How deep a request is looked into, and how much of a text in it."""


@dataclass
class RankKernels(EntryJudge):
    """Judges one rank's ``kernel_meta``.

    ``keys`` stand for the kernels of which any file exists, whatever their device, and ``devices``
    are the devices in their names. For kernels that are whole, ``whole`` has their keys,
    ``objects`` keys of their objects' bytes without the kernel's name, and ``sizes`` the objects'
    bytes. Those of each kind are in the same order. ``chips`` counts what they are compiled for,
    ``recorded`` is what the requests of all of them say alike, and ``operators`` has the files of a
    kernel for each operator that a request says, and each that a file is named after.
    """

    toolchains: Toolchains = field(default_factory=Toolchains)
    keys: array[int] = field(default_factory=numbers)
    devices: array[int] = field(default_factory=numbers)
    whole: array[int] = field(default_factory=numbers)
    objects: array[int] = field(default_factory=numbers)
    sizes: array[int] = field(default_factory=numbers)
    chips: Counter[str] = field(default_factory=Counter)
    recorded: dict[str, str] = field(default_factory=dict)
    operators: defaultdict[str, dict[str, tuple[str, ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        if suffix == ".so" and folder.look(f"{stem}.json") is None:
            stem = stem.removeprefix("lib")
        match = KERNEL_STEM.fullmatch(stem)
        if match is None or suffix not in _RANK_SUFFIXES:
            return False
        if not _is_first(folder, stem, suffix, _RANK_SUFFIXES):
            return True
        key = short(match["name"].encode())
        self.keys.append(key)
        self.devices.append(int(match["device"]))
        metadata = _metadata(self, folder, name, info, _RANK_SUFFIXES)
        if metadata is None:
            return True
        files, info_name, object_name = metadata.files, f"{stem}.info", ""
        with reported(self.ledger):
            object_name = _object_name(metadata, stem)
        needed = filter(None, (object_name, info_name))
        if lacking := [each for each in map(files.lacks, needed) if each]:
            detail = f"{' and '.join(lacking)}: the kernel is compiled again"
            raise metadata.blame(Check.WHOLE_ENTRIES, detail)
        described = read_metadata(files, info_name)
        if described is not None and not described.fields:
            raise described.blame(Check.METADATA, "records nothing of its kernel")
        if described is not None and (chip := QUOTED_CHIP.search(described.text)) is not None:
            self.chips[chip[1].decode()] += 1
        if described is not None:
            self._request(described, stem)
        if object_name and described is not None:
            content = check_object(files, object_name, metadata.fields)
            if content is not None:
                self.toolchains.add(described.fields, content.data, folder.path(name))
                self.whole.append(key)
                # The kernel's name, which the object contains, differs by device.
                nameless = content.data.replace(stem.encode(), b"")
                self.objects.append(short(sha256(nameless).digest()))
                self.sizes.append(content.info.st_size)
                problem = disagreement(metadata.fields, metadata.text, "")
                problem = problem or foreign_name(metadata.fields, stem, content.data, folder)
                problem = problem or missing_symbol(metadata.fields, content.data)
                if problem:
                    raise metadata.blame(Check.AGREEMENT, problem)
                if problem := _of_request(described, stem, int(match["device"])):
                    raise described.blame(Check.AGREEMENT, problem)
        return True

    def _request(self, request: Metadata, stem: str) -> None:
        """Note what a request says of its operator, and of its run."""
        said = dict(_scalars(request.fields))
        for what, value in said.items():
            if not _OWN.search(what) and self.recorded.setdefault(what, value) != value:
                self.recorded[what] = ""
        if name := _letters(said.get("op_name", "")):
            files = (request.name, *request.files.names)
            paths = tuple(map(request.files.folder.path, files))
            self.operators[name].setdefault(_letters(stem), paths)

    def conclude(self) -> None:
        """Report requests of an operator that another kernel is named after, and not theirs."""
        for name, found in self.operators.items():
            own = found.get(name, ("",))[0].rpartition("/")[2]
            for stem, (path, *remove) in found.items():
                if own and name not in stem:
                    detail = f"op_name is that of {own[:90]}: another operator's"
                    self.ledger.add(Check.AGREEMENT, path, detail, 0, (*remove,))

    def no_file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        is_kernels = suffix in _RANK_SUFFIXES and KERNEL_STEM.fullmatch(stem) is not None
        return is_kernels and _no_file(folder, name, info, _RANK_SUFFIXES)


def _scalars(fields: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers that a request gives, outside of its lists, by their keys."""
    for key, value in fields.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{where}{key}.") if where.count(".") < _DEEPEST else ()
        elif isinstance(value, (str, int)):
            yield f"{where}{key}", " ".join(str(value)[:_LONGEST].split())


def _letters(text: str) -> str:
    """Return an operator's name as it may be in that of a function."""
    return re.sub(r"[^a-z]", "", text.lower())


def _of_request(request: Metadata, stem: str, device: int) -> str:
    """Return how a compile request contradicts its file's name; empty if it does not. One that
    names kernels beside it and not its own is another's, whatever its fields are called."""
    for field_name in ("device_id", "source_id"):
        said = request.fields.get(field_name)
        if type(said) is int and said != device:
            return f"{field_name} is {said}, and the file's name says card {device}"
    for other in _NAMED.finditer(request.text) if stem.encode() not in request.text else ():
        if request.files.folder.has(f"{other[1].decode()}.json"):
            return f"is the request of {other[1].decode()[:90]}: another kernel's"
    return ""


def _no_file(folder: Folder, name: str, info: os.stat_result, suffixes: Sequence[str]) -> bool:
    """Blame what is no regular file in the place of a kernel's file, if no other file of the kernel
    is judged and says so."""
    stem, suffix = split(name)
    judged = (each for each in suffixes if each != suffix)
    regular = (folder.look(stem + each) for each in judged)
    if suffix == ".json" or not any(each and stat.S_ISREG(each.st_mode) for each in regular):
        detail = f"is {kind_of(info)}, no file that a toolchain may read"
        raise Files(folder, ()).blame(Check.WHOLE_ENTRIES, name, detail, info)
    return True


def _object_name(metadata: Metadata, stem: str) -> str:
    metadata.require_plain_names()
    metadata.require(("binFileName", "binFileSuffix", "kernelName", "sha256"))
    name = metadata.fields["binFileName"]
    if name not in (stem, f"lib{stem}"):
        detail = f"binFileName is {name[:90]!r}: another kernel's object"
        raise metadata.blame(Check.METADATA, detail)
    return str(name + metadata.fields["binFileSuffix"])


class PreBuilds(EntryJudge):
    """Judges what MindSpore records of each operator before it compiles it."""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        is_record = name.endswith(".json")
        if is_record:
            read_metadata(Files(folder, (name,)), name, info)
        return is_record


class AkgKernels(EntryJudge):
    """Judges kernels of AKG: ``.info``, objects, and a ``.json`` with the digests, written last."""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        if suffix not in _AKG_SUFFIXES or name == "Initialize.info":
            return False
        if not _is_first(folder, stem, suffix, _AKG_SUFFIXES):
            return True
        metadata = _metadata(self, folder, name, info, _AKG_SUFFIXES)
        if metadata is None:
            return True
        files = metadata.files
        keys = {".o": "objSha256"} if metadata.fields.get("objSha256") else {}
        metadata.require(("kernelName", "sha256", *keys.values()))
        # The digest without a name of its own is an object's only where no library is made of it.
        last = (".so", ".ptx") if keys else (".so", ".ptx", ".o")
        libraries = (each for each in last if folder.look(stem + each))
        keys[next(libraries, ".so")] = "sha256"
        needed = [stem + each for each in keys] + [f"{stem}.info"]
        if lacking := [each for each in map(files.lacks, needed) if each]:
            raise metadata.blame(Check.WHOLE_ENTRIES, " and ".join(lacking))
        with reported(self.ledger):
            read_metadata(files, f"{stem}.info")
        for suffix, key in keys.items():
            with reported(self.ledger):
                check_object(files, stem + suffix, metadata.fields, key=key)
        problem = disagreement(metadata.fields, metadata.text, "")
        if problem := problem or foreign_name(metadata.fields, stem, b"", folder):
            raise metadata.blame(Check.AGREEMENT, problem)
        return True

    def no_file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        is_kernels = split(name)[1] in _AKG_SUFFIXES
        return is_kernels and _no_file(folder, name, info, _AKG_SUFFIXES)


def _is_first(folder: Folder, stem: str, suffix: str, suffixes: Sequence[str]) -> bool:
    """Return whether no file of the kernel with an earlier suffix exists: it is judged once."""
    if suffix not in suffixes:
        return False
    earlier = suffixes[: suffixes.index(suffix)]
    return not any(map(folder.look, _names(stem, earlier)))


def _names(stem: str, suffixes: Sequence[str]) -> Iterator[str]:
    """Yield the names that the files of a kernel may have."""
    for suffix in suffixes:
        yield stem + suffix
        if suffix == ".so":
            yield f"lib{stem}.so"


def _metadata(
    judge: EntryJudge, folder: Folder, name: str, info: os.stat_result, suffixes: Sequence[str]
) -> Metadata | None:
    """Read the metadata of the kernel that the file ``name`` belongs to, and count the entry."""
    stem, suffix = split(name)
    both = (each for each in _names(stem, suffixes) if each[:3] != "lib" or folder.look(each))
    files = Files(folder, tuple(both))
    if suffix != ".json":
        detail = "its .json is missing: its compile was interrupted, or files were deleted"
        raise files.blame(Check.WHOLE_ENTRIES, name, detail, info)
    judge.entries += 1
    return read_metadata(files, name, info)


@dataclass
class GraphCache(EntryJudge):
    """Judges graphs, numbered as they were compiled, and the digest of the scripts behind them.

    ``keys`` stand for the graphs' file names, ``scripts`` is that digest, of any role.
    """

    alone = GRAPH_FILE
    keys: array[int] = field(default_factory=numbers)
    scripts: str = ""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        match = GRAPH_FILE.fullmatch(name)
        if match is None:
            return False
        role, number = match["role"], match["number"]
        if number is None:
            self._dependencies(folder, name, role)
            return True
        self.entries += 1
        self.keys.append(short(name.encode()))
        files = Files(folder, (name,))
        before = f"{role}compile_cache_{int(number) - 1}.mindir"
        if folder.look(f"{role}compile_dependency.hash") is None:
            detail = f"{role}compile_dependency.hash is missing: the graph is never used"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, info)
        if int(number) and folder.look(before) is None:
            detail = f"{before} is missing: graphs are numbered as they are compiled"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, info)
        check_whole(files, name, info)
        return True

    def _dependencies(self, folder: Folder, name: str, role: str) -> None:
        graph = f"{role}compile_cache_0.mindir"
        files = Files(folder, (name, graph))
        content = folder.read(name)
        if content is None:
            return
        if not _DIGEST.fullmatch(content.data):
            detail = f"has {content.info.st_size} bytes that are not one sha256 digest"
            raise files.blame(Check.METADATA, name, detail, content.info)
        self.scripts = content.data.decode().strip()
        if folder.look(graph) is None:
            detail = "has no graph: its compile failed or was interrupted"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)
