"""Entries of CANN's operator cache. Source: facts ``cann-operator-cache`` sections 1.2, 2.9-2.11
and 7."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from pytest_ascendcache.audit.entries import (
    Files,
    Judge,
    Metadata,
    Toolchains,
    check_object,
    read_metadata,
)
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.limits import Aging
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import split

_KERNELS = ("te_", "libte_")
_PRE_COMPILE = "_pre"
_NEEDED = ("binFileName", "binFileSuffix", "kernelName", "sha256")
_SHARED_LOCKS = {"op_cache_file_del.lock", ".op_cache.lock"}
"""Locks of a whole directory; their writers never remove them."""


@dataclass
class SocCache(Judge):
    """Judges the cache of one SoC. ``seen`` is called with each object that metadata leads to."""

    _: KW_ONLY
    seen: Callable[[Folder, str, os.stat_result], None]
    toolchains: Toolchains = field(default_factory=Toolchains)
    aging: Aging = field(default_factory=Aging)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        stem, suffix = split(name)
        self.aging.total += info.st_size
        if suffix == ".lock":
            self._lock(folder, name, stem)
        elif stem.startswith(_KERNELS) and suffix == ".json":
            self._metadata(folder, name, stem, info)
        elif stem.startswith(_KERNELS) and suffix in (".o", ".so", ".h"):
            self._alone(folder, name, stem, info)

    def defers(self, folder: Folder, name: str) -> bool:
        """Return whether a file is an object that is judged together with its metadata."""
        return name.endswith(".o") and name.startswith(_KERNELS) and folder.has(f"{name[:-2]}.json")

    def no_file(self, folder: Folder, name: str) -> None:
        """Count the object whose metadata is a directory, a link or the like: nothing reads it."""
        stem, suffix = split(name)
        if suffix == ".json" and stem.startswith(_KERNELS):
            self._count(folder, f"{stem}.o")

    def _count(self, folder: Folder, name: str) -> os.stat_result | None:
        """Return what an object is, and count it if it is a regular file."""
        info = folder.look(name)
        if info is not None and stat.S_ISREG(info.st_mode):
            self.aging.total += info.st_size
            self.seen(folder, name, info)
        return info

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
        if all(folder.look(each) is None for each in metadata):
            files = Files(folder, (metadata[0], name))
            raise files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)

    def _metadata(self, folder: Folder, name: str, stem: str, info: os.stat_result) -> None:
        object_name = f"{stem}.o"
        object_info = self._count(folder, object_name)
        metadata = read_metadata(Files(folder, (name, object_name)), name, info)
        if metadata is None:
            return
        if stem.endswith(_PRE_COMPILE):
            metadata._replace(files=Files(folder, (name,))).require(("pattern",))
            return
        self.entries += 1
        metadata.require_plain_names()
        fields = metadata.fields
        # CANN stores the results of autofuse without a digest, and never reuses them.
        undigested = fields.get("binFileSuffix") == ".so" and "sha256" not in fields
        metadata.require(_NEEDED[:2] if undigested else _NEEDED)
        if fields["binFileSuffix"] not in (".o", ".so"):
            detail = f"binFileSuffix is {fields['binFileSuffix'][:20]!r}, not .o or .so"
            raise metadata.blame(Check.METADATA, detail)
        if fields["binFileSuffix"] == ".o" and fields["binFileName"] != stem:
            detail = f"binFileName is {fields['binFileName'][:90]!r}: another kernel's object"
            raise metadata.blame(Check.METADATA, detail)
        if fields["binFileSuffix"] != ".o":
            object_name = fields["binFileName"] + fields["binFileSuffix"]
            object_info = folder.look(object_name)
            metadata = metadata._replace(files=Files(folder, (name, object_name)))
        self._object(metadata, object_name, object_info)

    def _object(self, metadata: Metadata, name: str, info: os.stat_result | None) -> None:
        path = metadata.files.folder.path(metadata.name)
        size = metadata.info.st_size + (info.st_size if info else 0)
        self.aging.add_entry(size, metadata.info.st_atime, path)
        if info is None:
            raise metadata.blame(Check.WHOLE_ENTRIES, f"its object {name} is missing")
        if "sha256" in metadata.fields:
            content = check_object(metadata.files, name, metadata.fields["sha256"], info)
            if content is not None:
                self.toolchains.add(metadata.fields, content.data, path)
