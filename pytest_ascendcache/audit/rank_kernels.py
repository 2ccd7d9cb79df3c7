"""Kernels MindSpore keeps: of a rank (``kernel_meta``), and of AKG (``akg_kernel_meta``).

Source: document M; facts ``mindspore-incremental`` sections 1.2, 1.3 and 2.2.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any

from pytest_ascendcache.audit.entries import (
    Files,
    Toolchains,
    check_object,
    leading_out,
    read_metadata,
    wrong_type,
)
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import Content, Folder
from pytest_ascendcache.caches.recognition import KERNEL_STEM, split

_SUFFIXES = (".json", ".o", ".so", ".info")
_OBJECTS = (".o", ".so", ".ptx")


def short(data: bytes) -> int:
    """Eight bytes that stand for more: of a few million no two are equal."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


@dataclass
class RankKernels:
    """What is known of one rank's ``kernel_meta`` so far.

    ``keys`` stand for the kernels that are there in any part, whatever their device; ``objects``
    for the bytes of the whole ones, in the order of ``whole``, their own name left out.
    """

    ledger: Ledger
    toolchains: Toolchains = field(default_factory=Toolchains)
    entries: int = 0
    keys: array[int] = field(default_factory=lambda: array("q"))
    whole: array[int] = field(default_factory=lambda: array("q"))
    objects: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Judge one file; a kernel is judged at its metadata, or at what there is of it.

        Raises:
            CannotRead, ChangedWhileRead: where it cannot be.
        """
        stem, suffix = split(name)
        match = KERNEL_STEM.fullmatch(stem)
        if suffix not in _SUFFIXES or match is None:
            return
        if suffix == ".json":
            self.entries += 1
            self.keys.append(short(match["name"].encode()))
            self._kernel(folder, stem, short(match["name"].encode()))
        elif _first_there(folder, stem, _SUFFIXES) == suffix:
            self.keys.append(short(match["name"].encode()))
            files = Files(self.ledger, folder, _names(stem, _SUFFIXES))
            detail = "its .json is missing: its compile was interrupted, or files were deleted"
            files.blame(Check.WHOLE_ENTRIES, name, detail, info)

    def _kernel(self, folder: Folder, stem: str, key: int) -> None:
        name, info_name = f"{stem}.json", f"{stem}.info"
        files = Files(self.ledger, folder, _names(stem, _SUFFIXES))
        read = read_metadata(files, name)
        if read is None:
            return
        content, metadata = read
        object_name = self._object_name(files, name, content, metadata)
        missing = [each for each in (object_name, info_name) if each and not folder.look(each)]
        if missing:
            detail = f"{' and '.join(missing)} missing: the kernel is compiled again"
            files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)
            return
        described = read_metadata(files, info_name)
        if not object_name or described is None:
            return
        whole = check_object(files, object_name, metadata["sha256"])
        if whole is not None:
            self._note(folder.path(name), stem, key, whole, described[1])

    def _object_name(
        self, files: Files, name: str, content: Content, metadata: dict[str, Any]
    ) -> str:
        """The object the metadata names; empty where it names none, which is noted."""
        stem = name.removesuffix(".json")
        if outside := leading_out(metadata):
            files.blame(Check.NAMES_INSIDE, name, outside, content.info)
            return ""
        needed = ("binFileName", "binFileSuffix", "kernelName", "sha256")
        problem = wrong_type(metadata, needed)
        if not problem and metadata["binFileName"] not in (stem, f"lib{stem}"):
            problem = f"binFileName is {metadata['binFileName'][:90]!r}: another kernel's object"
        if problem:
            files.blame(Check.METADATA, name, problem, content.info)
            return ""
        return str(metadata["binFileName"] + metadata["binFileSuffix"])

    def _note(
        self, path: str, stem: str, key: int, content: Content, described: dict[str, Any]
    ) -> None:
        self.toolchains.add(described, content.data, path)
        self.whole.append(key)
        # The device is part of the name, which is in the object and not of the kernel.
        alike = content.data.replace(stem.encode(), b"")
        self.objects.append(short(sha256(alike).digest()))
        self.sizes.append(content.info.st_size)


@dataclass
class AkgKernels:
    """Kernels of AKG: ``.info``, objects, and a ``.json`` with the digests, written last."""

    ledger: Ledger
    entries: int = 0

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """See :class:`RankKernels`."""
        stem, suffix = split(name)
        every = (".json", *_OBJECTS, ".info")
        if suffix == ".json":
            self.entries += 1
            self._kernel(folder, stem, info)
        elif suffix in every and _first_there(folder, stem, every) == suffix:
            files = Files(self.ledger, folder, _names(stem, every))
            detail = "its .json is missing: its compile was interrupted, or files were deleted"
            files.blame(Check.WHOLE_ENTRIES, name, detail, info)

    def _kernel(self, folder: Folder, stem: str, info: os.stat_result) -> None:
        name = f"{stem}.json"
        files = Files(self.ledger, folder, _names(stem, (".json", *_OBJECTS, ".info")))
        read = read_metadata(files, name)
        if read is None:
            return
        metadata = read[1]
        if problem := wrong_type(metadata, ("kernelName", "sha256")):
            files.blame(Check.METADATA, name, problem, info)
            return
        digests = {".o": metadata.get("objSha256")}
        last = _first_there(folder, stem, (".so", ".ptx", ".o")) or ".so"
        digests[last] = metadata["sha256"]
        wanted = [suffix for suffix, digest in digests.items() if digest] + [".info"]
        missing = [each for each in wanted if not folder.look(stem + each)]
        if missing:
            detail = f"{' and '.join(stem + each for each in missing)} missing"
            files.blame(Check.WHOLE_ENTRIES, name, detail, info)
            return
        read_metadata(files, f"{stem}.info")
        for suffix, digest in digests.items():
            if isinstance(digest, str):
                check_object(files, stem + suffix, digest)


def _names(stem: str, suffixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(stem + suffix for suffix in suffixes)


def _first_there(folder: Folder, stem: str, suffixes: Sequence[str]) -> str:
    """The first of these files that exists, so that a kernel is judged once."""
    return next((each for each in suffixes if folder.look(stem + each) is not None), "")
