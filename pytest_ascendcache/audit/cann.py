"""Entries of CANN's operator cache. Source: facts ``cann-operator-cache`` sections 1.2, 2.9-2.11
and 7."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_ascendcache.audit.entries import (
    Files,
    Toolchains,
    check_object,
    leading_out,
    read_metadata,
    wrong_type,
)
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.limits import Aging
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import split

_KERNELS = ("te_", "libte_")
_PRE_COMPILE = "_pre"
_NEEDED = ("binFileName", "binFileSuffix", "kernelName", "sha256")
_SHARED_LOCKS = {"op_cache_file_del.lock", ".op_cache.lock"}
"""Locks of a whole directory; their writers never remove them."""


@dataclass
class SocCache:
    """What is known of one SoC's directory so far. ``seen`` is told of each object there is."""

    ledger: Ledger
    seen: Callable[[Folder, str, os.stat_result], None]
    toolchains: Toolchains = field(default_factory=Toolchains)
    aging: Aging = field(default_factory=Aging)
    entries: int = 0
    locks: int = 0
    foreign: int = 0

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Judge one file; an entry is judged at its metadata, its object alone if there is none.

        Raises:
            CannotRead, ChangedWhileRead: where it cannot be.
        """
        stem, suffix = split(name)
        is_kernel = stem.startswith(_KERNELS)
        self.aging.total += info.st_size
        if suffix == ".lock":
            self._lock(folder, name, stem)
        elif is_kernel and suffix == ".json":
            self._metadata(folder, name, stem, info)
        elif is_kernel and suffix in (".o", ".so", ".h"):
            self._alone(folder, name, stem, info)
        else:
            self.foreign += 1

    def defers(self, folder: Folder, name: str) -> bool:
        """Whether a file is an object that is looked at where its metadata is met."""
        return name.endswith(".o") and name.startswith(_KERNELS) and folder.has(f"{name[:-2]}.json")

    def no_file(self, folder: Folder, name: str) -> None:
        """Count the object whose metadata is a directory, a link or the like: nothing reads it."""
        stem, suffix = split(name)
        if suffix == ".json" and stem.startswith(_KERNELS):
            self._count(folder, f"{stem}.o")

    def _count(self, folder: Folder, name: str) -> os.stat_result | None:
        """An object as it is, which is counted where it is a file."""
        there = folder.look(name)
        if there is not None and stat.S_ISREG(there.st_mode):
            self.aging.total += there.st_size
            self.seen(folder, name, there)
        return there

    def _lock(self, folder: Folder, name: str, stem: str) -> None:
        """CANN locks a kernel with a file of its own and leaves it; without the kernel it is of
        no use."""
        kernel = stem.removesuffix(_PRE_COMPILE)
        names = (f"{stem}.json", f"{kernel}.json", f"{kernel}.o", f"lib{kernel}.so")
        if name in _SHARED_LOCKS or any(folder.look(each) for each in names):
            self.locks += 1
            return
        detail = "the lock of a kernel that is not there"
        self.ledger.add(Check.LEFTOVERS, folder.path(name), detail, 0, (folder.path(name),))

    def _alone(self, folder: Folder, name: str, stem: str, info: os.stat_result) -> None:
        """An object or header; one with metadata is judged there."""
        for other in (f"{stem}.json", f"{stem.removeprefix('lib')}.json"):
            if folder.look(other) is not None:
                return
        files = Files(self.ledger, folder, (f"{stem}.json", name))
        files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)

    def _metadata(self, folder: Folder, name: str, stem: str, info: os.stat_result) -> None:
        object_name = f"{stem}.o"
        files = Files(self.ledger, folder, (name, object_name))
        there = self._count(folder, object_name)
        read = read_metadata(files, name, info)
        if read is None:
            return
        content, metadata = read
        if stem.endswith(_PRE_COMPILE):
            if problem := wrong_type(metadata, ("pattern",)):
                alone = Files(self.ledger, folder, (name,))
                alone.blame(Check.METADATA, name, problem, content.info)
            return
        self.entries += 1
        if outside := leading_out(metadata):
            files.blame(Check.NAMES_INSIDE, name, outside, content.info)
            return
        # CANN stores the results of autofuse without a digest, and never reuses them.
        undigested = metadata.get("binFileSuffix") == ".so" and "sha256" not in metadata
        problem = wrong_type(metadata, _NEEDED[:2] if undigested else _NEEDED)
        if not problem and metadata["binFileSuffix"] not in (".o", ".so"):
            problem = f"binFileSuffix is {metadata['binFileSuffix'][:20]!r}, not .o or .so"
        elif not problem and metadata["binFileSuffix"] == ".o" and metadata["binFileName"] != stem:
            problem = f"binFileName is {metadata['binFileName'][:90]!r}: another kernel's object"
        if problem:
            files.blame(Check.METADATA, name, problem, content.info)
            return
        if metadata["binFileSuffix"] != ".o":
            object_name = metadata["binFileName"] + metadata["binFileSuffix"]
            there = folder.look(object_name)
            files = Files(self.ledger, folder, (name, object_name))
        self._object(files, metadata, content.info, there)

    def _object(
        self,
        files: Files,
        metadata: dict[str, str],
        info: os.stat_result,
        there: os.stat_result | None,
    ) -> None:
        name, object_name = files.names
        path = files.folder.path(name)
        if there is None:
            files.blame(Check.WHOLE_ENTRIES, name, f"its object {object_name} is missing", info)
        size = info.st_size + (there.st_size if there else 0)
        self.aging.add_entry(size, info.st_atime, path)
        if there is None or "sha256" not in metadata:
            return
        content = check_object(files, object_name, metadata["sha256"], there)
        if content is not None:
            self.toolchains.add(metadata, content.data, path)
