"""What TorchAir's static kernels leave: outputs of compiles, and installed packages.

Source: facts ``static-kernel`` sections 1, 2.5 and 3.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_ascendcache.audit.entries import Files, check_object, leading_out, read_metadata
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import split

_RECORDS = re.compile(r"\d+(?:_debug|_opcompile\w*)?")
"""Folders of operator information, by process id."""

_WORK = re.compile(r".+_extent|opcdump_\d{12}|tmp_\d{12}")
"""What a compile has beside its results while it runs."""

_HEAD = 1 << 16
_REST = re.compile(rb"#!.*\nsha256=([0-9a-f]{64})\n")
"""The head of packages made by ``ascendcache-op-compiler``: a digest of all that follows."""

_SHA = re.compile(rb'^SHA="([0-9a-f]{64})"', re.MULTILINE)
_SIZE = re.compile(rb'^filesizes="(\d+)"', re.MULTILINE)
_LINES = re.compile(rb'^skip="?(\d+)"?|head -n "?(\d+)"? "\$0"', re.MULTILINE)
_PART = 1 << 20


@dataclass
class StaticOutputs:
    """One compile's outputs: records of operators, and the packages made of them."""

    ledger: Ledger
    entries: int = 0

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Judge one file.

        Raises:
            CannotRead, ChangedWhileRead: where it cannot be.
        """
        inside = PurePosixPath(folder.relative).name
        suffix = split(name)[1]
        if suffix == ".run":
            self.entries += 1
            self._package(folder, name, info)
        elif suffix == ".json" and _RECORDS.fullmatch(inside):
            self.entries += 1
            read_metadata(Files(self.ledger, folder, (name,)), name)

    def directory(self, folder: Folder, name: str) -> None:
        """Judge a directory by its name."""
        if _WORK.fullmatch(name):
            detail = "a compile's working directory: it was interrupted, or ran with -l debug"
            self.ledger.add(Check.LEFTOVERS, folder.path(name), detail)

    def _package(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Hold a self-extracting package against the size and digest in its own head."""
        files = Files(self.ledger, folder, (name,))
        if not info.st_size:
            files.blame(Check.WHOLE_OBJECTS, name, "is empty", info)
            return
        with folder.opened(name, info) as descriptor:
            head = os.pread(descriptor, _HEAD, 0)
            said = _own_digest(head, info.st_size)
            if said is None:
                return  # packed by something else; nothing to compare with
            expected, start, size = said
            digest = _digest(descriptor, start, size)
        missing = start + size - info.st_size
        if missing > 0:
            files.blame(Check.WHOLE_OBJECTS, name, f"is cut: {missing} bytes are missing", info)
        elif digest != expected:
            detail = f"sha256 of the payload is {digest[:12]}..., its head says {expected[:12]}..."
            files.blame(Check.DIGESTS, name, detail, info)


def _own_digest(head: bytes, size: int) -> tuple[str, int, int] | None:
    """What a package says of itself: the digest, where what it is of begins, and its bytes."""
    if (rest := _REST.match(head)) is not None:
        return rest[1].decode(), rest.end(), size - rest.end()
    sha, payload, lines = _SHA.search(head), _SIZE.search(head), _LINES.search(head)
    if sha is None or payload is None or lines is None:
        return None
    return sha[1].decode(), _offset(head, int(lines[1] or lines[2])), int(payload[1])


def _offset(head: bytes, lines: int) -> int:
    """Bytes of the first lines."""
    position = 0
    for _ in range(lines):
        position = head.find(b"\n", position) + 1
    return position


def _digest(descriptor: int, start: int, size: int) -> str:
    total, position = hashlib.sha256(), start
    while part := os.pread(descriptor, min(_PART, start + size - position), position):
        total.update(part)
        position += len(part)
    return total.hexdigest()


@dataclass
class InstalledKernels:
    """``static_kernel/ai_core``: packages of kernels, and one index of all of them a SoC."""

    ledger: Ledger
    unit: str
    entries: int = 0
    has_index: bool = False

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """See :meth:`StaticOutputs.file`."""
        stem, suffix = split(name)
        inside = folder.relative.removeprefix(self.unit).strip("/")
        if name == "binary_info_config.json":
            self.has_index = True
            self._index(folder, name)
        elif name == "config.ini" and not inside:
            self._packages(folder, name)
        elif suffix == ".o" and folder.look(f"{stem}.json") is None:
            files = Files(self.ledger, folder, (f"{stem}.json", name))
            files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)
        elif suffix == ".json" and inside.count("/") == 2:
            self.entries += 1
            self._kernel(folder, stem)

    def _kernel(self, folder: Folder, stem: str) -> None:
        name, object_name = f"{stem}.json", f"{stem}.o"
        # A package is one thing to its index: nothing is suggested for removal.
        files = Files(self.ledger, folder, ())
        read = read_metadata(files, name)
        if read is None:
            return
        content, metadata = read
        if outside := leading_out(metadata):
            files.blame(Check.NAMES_INSIDE, name, outside, content.info)
        elif folder.look(object_name) is None:
            files.blame(Check.WHOLE_ENTRIES, name, f"{object_name} is missing", content.info)
        elif isinstance(metadata.get("sha256"), str):
            check_object(files, object_name, metadata["sha256"])

    def _index(self, folder: Folder, name: str) -> None:
        files = Files(self.ledger, folder, ())
        read = read_metadata(files, name)
        if read is None:
            return
        content, index = read
        up = "../" * (folder.relative.removeprefix(self.unit).strip("/").count("/") + 1)
        for path in _named_kernels(index):
            plain = PurePosixPath(path)
            if plain.is_absolute() or ".." in plain.parts:
                detail = f"binPath {path[:100]!r} leads out of the installation"
                files.blame(Check.NAMES_INSIDE, name, detail, content.info)
            elif folder.look(up + path) is None:
                detail = f"names {path[:150]}, which is not there"
                files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)

    def _packages(self, folder: Folder, name: str) -> None:
        files = Files(self.ledger, folder, ())
        content = folder.read(name)
        if content is None:
            return
        text = content.data.decode("utf-8", "replace")
        listed = re.search(r"load_priority\s*=\s*(\S*)", text)
        for package in filter(None, listed[1].split(",") if listed else ()):
            if "/" in package or package == "..":
                detail = f"load_priority names {package[:100]!r}, which leads to another directory"
                files.blame(Check.NAMES_INSIDE, name, detail, content.info)
            elif folder.look(package) is None:
                detail = f"load_priority names {package[:100]}, which is not installed"
                files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)


def _named_kernels(index: dict[str, object]) -> list[str]:
    """The paths of every kernel an index names, each once."""
    kernels = [
        kernel
        for operator in index.values()
        if isinstance(operator, dict) and isinstance(operator.get("staticList"), list)
        for kernel in operator["staticList"]
    ]
    paths = [each.get("binPath") for each in kernels if isinstance(each, dict)]
    return list(dict.fromkeys(each for each in paths if isinstance(each, str)))
