"""Entries of CANN's operator cache. Source: facts ``cann-operator-cache`` sections 1.2, 2.9-2.11
and 7."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from pytest_ascendcache.audit.entries import (
    Files,
    Toolchains,
    check_object,
    leading_out,
    made_by,
    read_metadata,
    wrong_types,
)
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.layouts import CANN_STEM, split
from pytest_ascendcache.audit.limits import Aging
from pytest_ascendcache.audit.reading import Folder

_PRE_COMPILE = "_pre"
_SHARED_LOCKS = {"op_cache_file_del.lock", ".op_cache.lock"}
"""Locks of a whole directory; their writers never remove them."""


@dataclass
class SocCache:
    """What is known of one SoC's directory so far."""

    ledger: Ledger
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
        belongs = suffix == ".json" and CANN_STEM.match(stem) is not None
        self.aging.total += info.st_size
        if suffix == ".lock":
            self._lock(folder, name, stem)
        elif belongs:
            self._metadata(folder, stem)
        elif suffix in (".o", ".so", ".h") and CANN_STEM.match(stem):
            self._alone(folder, name, stem, info)
        else:
            self.foreign += 1

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

    def _metadata(self, folder: Folder, stem: str) -> None:
        name = f"{stem}.json"
        files = Files(self.ledger, folder, (name, f"{stem}.o"))
        read = read_metadata(files, name)
        if read is None:
            return
        content, metadata = read
        if stem.endswith(_PRE_COMPILE):
            for problem in wrong_types(metadata, ("pattern",)):
                Files(self.ledger, folder, (name,)).blame(
                    Check.METADATA, name, problem, content.info
                )
            return
        self.entries += 1
        if outside := next(leading_out(metadata), ""):
            files.blame(Check.NAMES_INSIDE, name, outside, content.info)
            return
        # CANN stores the results of autofuse without a digest, and never reuses them.
        needed = ["binFileName", "binFileSuffix", "kernelName", "sha256"]
        if metadata.get("binFileSuffix") == ".so" and "sha256" not in metadata:
            needed = needed[:2]
        problem = next(wrong_types(metadata, needed), "")
        if not problem and metadata["binFileSuffix"] not in (".o", ".so"):
            problem = f"binFileSuffix is {metadata['binFileSuffix'][:20]!r}, not .o or .so"
        elif not problem and metadata["binFileSuffix"] == ".o" and metadata["binFileName"] != stem:
            problem = f"binFileName is {metadata['binFileName'][:90]!r}: another kernel's object"
        if problem:
            files.blame(Check.METADATA, name, problem, content.info)
            return
        self._object(folder, name, metadata, content.info)

    def _object(
        self, folder: Folder, name: str, metadata: dict[str, str], info: os.stat_result
    ) -> None:
        object_name = metadata["binFileName"] + metadata["binFileSuffix"]
        files = Files(self.ledger, folder, (name, object_name))
        there = folder.look(object_name)
        if there is None:
            files.blame(Check.WHOLE_ENTRIES, name, f"its object {object_name} is missing", info)
        size = info.st_size + (there.st_size if there else 0)
        self.aging.add_entry(size, info.st_atime, folder.path(name))
        if there is None or "sha256" not in metadata:
            return
        content = check_object(files, object_name, metadata["sha256"])
        if content is not None and (maker := made_by(metadata, content.data)):
            self.toolchains.add(maker, folder.path(name))
