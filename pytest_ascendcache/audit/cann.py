"""Entries of CANN's operator cache, and kernels of custom operators and debugging runs.

An entry is found by what it is: metadata that names an object. Source: facts
``cann-operator-cache`` sections 1.2, 2.9-2.11 and 7.
"""

from __future__ import annotations

import hashlib
import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pytest_ascendcache.audit.agreement import (
    disagreement,
    foreign_name,
    is_plain,
    missing_symbol,
)
from pytest_ascendcache.audit.entries import (
    EntryJudge,
    EntryProblem,
    Files,
    Metadata,
    Toolchains,
    check_object,
    check_whole,
    kind_of,
    read_metadata,
)
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.limits import AgingForecast
from pytest_ascendcache.audit.reading import CannotRead, Content, Folder, numbers, short
from pytest_ascendcache.caches.elf import embedded_objects
from pytest_ascendcache.caches.recognition import KERNEL_NAME, split

_PRE_COMPILE = "_pre"
_NEEDED = ("binFileName", "binFileSuffix", "kernelName", "sha256")
_TELLING = frozenset((*_NEEDED, "magic", "coreType", "blockDim", "jsonList"))
"""Fields by which a JSON file is known as metadata of a kernel."""

_SHARED_LOCKS = {"op_cache_file_del.lock", ".op_cache.lock", "file.lock"}
"""Locks of a whole directory; their writers never remove them."""

_DEBUG = ("_loc.json", "_compute.json")
_STAMPS = ("adk_version", "ops_version")


@dataclass
class KernelFolder(EntryJudge):
    """Judges metadata and the objects it names.

    ``seen`` is called with each object that metadata leads to, ``chip`` is the one that the
    directory is named after. ``keys`` stand for the entries' names, ``contents`` for names and
    digests, and ``stamps`` counts the versions that metadata records.
    """

    _: KW_ONLY
    seen: Callable[[Folder, str, os.stat_result], None]
    chip: str = ""
    toolchains: Toolchains = field(default_factory=Toolchains)
    keys: array[int] = field(default_factory=numbers)
    stamps: Counter[tuple[str, str]] = field(default_factory=Counter)
    contents: array[int] = field(default_factory=numbers)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        if suffix == ".lock":
            self._lock(folder, name, stem)
            return False
        if suffix == ".json" and (not name.endswith(_DEBUG) or folder.has(f"{stem}.o")):
            return self._metadata(folder, name, stem, info)
        if suffix in (".o", ".so", ".h") and KERNEL_NAME.fullmatch(stem):
            self._alone(folder, name, stem, info)
            return True
        names = (f"{stem}.json", f"{stem.removeprefix('lib')}.json")
        return suffix == ".so" and any(map(folder.has, names))

    def defers(self, folder: Folder, name: str) -> bool:
        """Return whether a file is an object that is judged together with its metadata."""
        return name.endswith(".o") and folder.has(f"{name[:-2]}.json")

    def no_file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        """Blame an entry's object or metadata that is no regular file: nothing can read it."""
        stem, suffix = split(name)
        if suffix not in (".json", ".o", ".so") or not KERNEL_NAME.fullmatch(stem):
            return False
        is_object = suffix != ".json"
        if not is_object:
            self.count(folder, f"{stem}.o")
        others = (f"{stem}.json", f"{stem.removeprefix('lib')}.json") if is_object else ()
        if not any(map(folder.look, others)):
            what = "its object" if is_object else "its metadata"
            detail = f"{what} is {kind_of(info)}, no file that a toolchain may read"
            raise Files(folder, ()).blame(Check.WHOLE_ENTRIES, name, detail, info)
        return True

    def count(self, folder: Folder, name: str) -> os.stat_result | None:
        """Return what an object is, and count it if it is a regular file."""
        info = folder.look(name)
        if info is not None and stat.S_ISREG(info.st_mode):
            self.seen(folder, name, info)
        return info

    def add_entry(self, size: int, accessed: float, path: str) -> None:
        """Count an entry of ``size`` bytes, last used at ``accessed``."""

    def _lock(self, folder: Folder, name: str, stem: str) -> None:
        """Judge a lock file. CANN leaves one for each kernel, useless without the kernel."""
        kernel = stem.removesuffix(_PRE_COMPILE)
        kept = (f"{stem}.json", f"{kernel}.json", f"{kernel}.o", f"lib{kernel}.so")
        if name not in _SHARED_LOCKS and not any(folder.look(each) for each in kept):
            detail = "the lock of a kernel that does not exist"
            self.ledger.add(Check.LEFTOVERS, folder.path(name), detail, 0, (folder.path(name),))

    def _alone(self, folder: Folder, name: str, stem: str, info: os.stat_result) -> None:
        """Judge an object or header, unless its metadata exists: then it is judged there."""
        metadata = (f"{stem}.json", f"{stem.removeprefix('lib')}.json")
        if not any(map(folder.look, metadata)):
            files = Files(folder, (metadata[0], name))
            raise files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)

    def _metadata(self, folder: Folder, name: str, stem: str, info: os.stat_result) -> bool:
        object_name = f"{stem}.o"
        object_info = self.count(folder, object_name)
        is_kernel = stem.startswith("te_") or KERNEL_NAME.fullmatch(stem) is not None
        try:
            metadata = read_metadata(Files(folder, (name, object_name)), name, info)
        except EntryProblem:
            if is_kernel or object_info is not None:
                raise
            return False
        if metadata is None:
            return True
        fields = metadata.fields
        if not is_kernel and _TELLING.isdisjoint(fields):
            _check_none(folder, name, object_name, object_info)
            return False  # a JSON file of any other kind
        if stem.endswith(_PRE_COMPILE) and "binFileName" not in fields:
            metadata._replace(files=Files(folder, (name,))).require(("pattern",))
            _check_none(folder, name, object_name, object_info)
            return True
        self.entries += 1
        self.keys.append(short(stem.encode("utf-8", "surrogateescape")))
        metadata.require_plain_names()
        if "jsonList" in fields and "binFileName" not in fields:
            self._parts(metadata)
            _check_none(folder, name, object_name, object_info)
            return True
        # CANN stores the results of autofuse without a digest, and never reuses them.
        undigested = fields.get("binFileSuffix") == ".so" and "sha256" not in fields
        metadata.require(_NEEDED[:2] if undigested else _NEEDED)
        if fields["binFileSuffix"] not in (".o", ".so"):
            detail = f"binFileSuffix is {fields['binFileSuffix'][:20]!r}, not .o or .so"
            raise metadata.blame(Check.METADATA, detail)
        if fields["binFileSuffix"] == ".o" and fields["binFileName"] != stem:
            detail = f"binFileName is {fields['binFileName'][:90]!r}: another kernel's object"
            if fields["binFileName"].startswith(stem):
                cut = len(fields["binFileName"]) - len(stem)
                detail = (
                    f"binFileName has {cut} characters more than its file's name, which was cut"
                )
            raise metadata.blame(Check.METADATA, detail)
        if fields["binFileSuffix"] != ".o":
            object_name = fields["binFileName"] + fields["binFileSuffix"]
            object_info = folder.look(object_name)
            metadata = metadata._replace(files=Files(folder, (name, object_name)))
        self._object(metadata, stem, object_name, object_info)
        return True

    def _parts(self, metadata: Metadata) -> None:
        """Judge metadata of the old form, which lists the metadata of its parts."""
        listed = metadata.fields["jsonList"]
        parts = [
            each.get("jsonFileName") if isinstance(each, dict) else None
            for each in (listed if isinstance(listed, list) else ())
        ]
        if not parts or not all(isinstance(part, str) and part for part in parts):
            detail = f"jsonList is {str(listed)[:60]}, and no list of parts"
            raise metadata.blame(Check.METADATA, detail)
        for part in map(str, parts):
            name = part if part.endswith(".json") else f"{part}.json"
            if lacking := metadata.files.lacks(name):
                raise metadata.blame(Check.WHOLE_ENTRIES, f"its part {lacking}")

    def _object(
        self, metadata: Metadata, stem: str, name: str, info: os.stat_result | None
    ) -> None:
        files, fields = metadata.files, metadata.fields
        path = files.folder.path(metadata.name)
        size = metadata.info.st_size + (info.st_size if info else 0)
        self.add_entry(size, metadata.info.st_atime, path)
        if info is None:
            raise metadata.blame(Check.WHOLE_ENTRIES, f"its object {name} is missing")
        if not stat.S_ISREG(info.st_mode):
            raise metadata.blame(Check.WHOLE_ENTRIES, f"its object {name} is {kind_of(info)}")
        header = fields.get("headerFileSuffix")
        if isinstance(header, str) and header:
            if lacking := files.lacks(f"{stem}{header}"):
                raise metadata.blame(Check.WHOLE_ENTRIES, f"its header {lacking}")
            if (there := files.folder.look(f"{stem}{header}")) and not there.st_size:
                raise files.blame(Check.WHOLE_OBJECTS, f"{stem}{header}", "is empty", there)
        content = None
        if fields["binFileSuffix"] == ".so":
            _check_library(files, name, fields, info)
        elif "sha256" in fields:
            content = check_object(files, name, fields, info)
        else:
            check_whole(files, name, info)
        if content is not None:
            self._compare(metadata, stem, content, path)

    def _compare(self, metadata: Metadata, stem: str, content: Content, path: str) -> None:
        """Compare what an entry says with itself, its name and its place."""
        fields = metadata.fields
        self.toolchains.add(fields, content.data, path)
        self.contents.append(short(f"{stem} {content.sha256}".encode("utf-8", "surrogateescape")))
        if "adk_version" in fields or "ops_version" in fields:
            for stamp in _STAMPS:
                if isinstance(version := fields.get(stamp), str):
                    self.stamps[stamp, version] += 1
        problem = disagreement(fields, metadata.text, self.chip)
        if not problem and not (is_plain(fields, stem) and stem.encode() in content.data):
            problem = foreign_name(fields, stem, content.data, metadata.files.folder)
            problem = problem or missing_symbol(fields, content.data)
        if problem:
            raise metadata.blame(Check.AGREEMENT, problem)
        lower = stem.lower()
        if lower != stem and metadata.files.folder.look(f"{lower}.json"):
            detail = f"is the same kernel as {lower}.json: their names differ only in case"
            raise metadata.blame(Check.AGREEMENT, detail)


def _check_none(folder: Folder, name: str, beside: str, info: os.stat_result | None) -> None:
    """Raise ``CannotRead`` if an object lies beside a JSON file that describes none: the object was
    left to that file, and nothing judges it."""
    if info is not None and stat.S_ISREG(info.st_mode):
        raise CannotRead(
            f"{folder.path(beside)}: is described by no metadata: {name} names no object"
        )


def _check_library(
    files: Files, name: str, fields: Mapping[str, Any], info: os.stat_result
) -> None:
    """Judge a library of autofuse. CANN records the digest of what the library returns when it is
    run, which nothing here does: of an object that it carries, or of the file. Raises
    ``CannotRead`` if it is of neither."""
    check_whole(files, name, info)
    content = files.folder.read(name, info, digest=True)
    said = fields.get("sha256")
    if content is None or not isinstance(said, str):
        return
    carried = {hashlib.sha256(each).hexdigest() for each in embedded_objects(content.data[1:])}
    if said.lower() not in {content.sha256, *carried}:
        detail = "its digest is of what it returns when it is run, which nothing here does"
        raise CannotRead(f"{files.folder.path(name)}: {detail}")


@dataclass
class SocCache(KernelFolder):
    """Judges the cache of one SoC, and computes what of it would age."""

    _: KW_ONLY
    aging: AgingForecast = field(default_factory=AgingForecast)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        self.aging.total += info.st_size
        if name == "op_cache.ini":
            detail = (
                "is in the directory of a chip, where nobody reads it and force removes it: put it "
                "beside that directory"
            )
            self.ledger.add(Check.INI, folder.path(name), detail, info.st_size)
        return super().file(folder, name, info)

    def count(self, folder: Folder, name: str) -> os.stat_result | None:
        info = super().count(folder, name)
        if info is not None and stat.S_ISREG(info.st_mode):
            self.aging.total += info.st_size
        return info

    def add_entry(self, size: int, accessed: float, path: str) -> None:
        self.aging.add_entry(size, accessed, path)
