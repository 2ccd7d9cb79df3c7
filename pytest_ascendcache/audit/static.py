"""What TorchAir's static kernels leave: outputs of compiles, and installed packages.

Source: facts ``static-kernel`` sections 1, 2.5 and 3.
"""

from __future__ import annotations

import os
import re
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_ascendcache.audit.entries import Files, Judge, check_object, read_metadata
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.reading import Folder, sha256_of
from pytest_ascendcache.caches.recognition import split

_RECORDS = re.compile(r"\d+(?:_debug|_opcompile\w*)?")
"""Folders of operator information, by process id."""

_WORK = re.compile(r".+_extent|opcdump_\d{12}|tmp_\d{12}")
"""Directories that a compile has next to its results while it runs."""

_HEAD = 1 << 16
_REST = re.compile(rb"#!.*\nsha256=([0-9a-f]{64})\n")
"""The head of packages made by ``ascendcache-op-compiler``: a digest of all that follows."""

_SHA = re.compile(rb'^SHA="([0-9a-f]{64})"', re.MULTILINE)
_SIZE = re.compile(rb'^filesizes="(\d+)"', re.MULTILINE)
_LINES = re.compile(rb'^skip="?(\d+)"?|head -n "?(\d+)"? "\$0"', re.MULTILINE)


class StaticOutputs(Judge):
    """Judges the outputs of a compile: operator information, and the packages made of it."""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        suffix = split(name)[1]
        if suffix == ".run":
            self.entries += 1
            _check_package(folder, name, info)
        elif suffix == ".json" and _RECORDS.fullmatch(PurePosixPath(folder.relative).name):
            self.entries += 1
            read_metadata(Files(folder, (name,)), name)

    def directory(self, folder: Folder, name: str) -> None:
        """Judge a directory by its name."""
        if _WORK.fullmatch(name):
            detail = "a compile's working directory: it was interrupted, or ran with -l debug"
            self.ledger.add(Check.LEFTOVERS, folder.path(name), detail)


def _check_package(folder: Folder, name: str, info: os.stat_result) -> None:
    """Compare a self-extracting package with the size and digest in its head."""
    files = Files(folder, (name,))
    if not info.st_size:
        raise files.blame(Check.WHOLE_OBJECTS, name, "is empty", info)
    with folder.opened(name, info) as descriptor:
        recorded = _recorded_digest(os.pread(descriptor, _HEAD, 0), info.st_size)
        if recorded is None:
            return  # another tool's package: its head has nothing to compare with
        expected, start, size = recorded
        digest = sha256_of(descriptor, start, size)
    missing = start + size - info.st_size
    if missing > 0:
        detail = f"is cut: {missing} bytes are missing"
        raise files.blame(Check.WHOLE_OBJECTS, name, detail, info)
    if digest != expected:
        detail = f"sha256 of the payload is {digest[:12]}..., its head says {expected[:12]}..."
        raise files.blame(Check.DIGESTS, name, detail, info)


def _recorded_digest(head: bytes, size: int) -> tuple[str, int, int] | None:
    """Return the digest in a package's head, and the offset and bytes of the part it covers."""
    if (rest := _REST.match(head)) is not None:
        return rest[1].decode(), rest.end(), size - rest.end()
    sha, payload, lines = _SHA.search(head), _SIZE.search(head), _LINES.search(head)
    if sha is None or payload is None or lines is None:
        return None
    behind_script = head.split(b"\n", int(lines[1] or lines[2]))[-1]
    return sha[1].decode(), len(head) - len(behind_script), int(payload[1])


@dataclass
class InstalledKernels(Judge):
    """Judges ``static_kernel/ai_core``: packages of kernels, and one index of them per SoC."""

    _: KW_ONLY
    unit: str
    has_index: bool = False

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        stem, suffix = split(name)
        inside = folder.relative.removeprefix(self.unit).strip("/")
        if name == "binary_info_config.json":
            self.has_index = True
            self._index(folder, name, "../" * (inside.count("/") + 1))
        elif name == "config.ini" and not inside:
            self._packages(folder, name)
        elif suffix == ".o" and folder.look(f"{stem}.json") is None:
            files = Files(folder, (f"{stem}.json", name))
            raise files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)
        elif suffix == ".json" and inside.count("/") == 2:
            self.entries += 1
            _check_kernel(folder, stem)

    def _index(self, folder: Folder, name: str, up: str) -> None:
        index = read_metadata(Files(folder, ()), name)
        if index is None:
            return
        for path in _named_kernels(index.fields):
            plain = PurePosixPath(path)
            if plain.is_absolute() or ".." in plain.parts:
                detail = f"binPath {path[:100]!r} leads out of the installation"
                index.blame(Check.NAMES_INSIDE, detail).report(self.ledger)
            elif folder.look(up + path) is None:
                detail = f"names {path[:150]}, which does not exist"
                index.blame(Check.WHOLE_ENTRIES, detail).report(self.ledger)

    def _packages(self, folder: Folder, name: str) -> None:
        files = Files(folder, ())
        content = folder.read(name)
        if content is None:
            return
        text = content.data.decode("utf-8", "replace")
        listed = re.search(r"load_priority\s*=\s*(\S*)", text)
        for package in filter(None, listed[1].split(",") if listed else ()):
            if "/" in package or package == "..":
                detail = f"load_priority names {package[:100]!r}, which leads to another directory"
                check = Check.NAMES_INSIDE
            elif folder.look(package) is None:
                detail = f"load_priority names {package[:100]}, which is not installed"
                check = Check.WHOLE_ENTRIES
            else:
                continue
            files.blame(check, name, detail, content.info).report(self.ledger)


def _check_kernel(folder: Folder, stem: str) -> None:
    # The index names the package as a whole, so no removal of single files is suggested.
    files = Files(folder, ())
    metadata = read_metadata(files, f"{stem}.json")
    if metadata is None:
        return
    metadata.require_plain_names()
    if folder.look(f"{stem}.o") is None:
        raise metadata.blame(Check.WHOLE_ENTRIES, f"{stem}.o is missing")
    if isinstance(digest := metadata.fields.get("sha256"), str):
        check_object(files, f"{stem}.o", digest)


def _named_kernels(index: dict[str, Any]) -> list[str]:
    """Return the path of every kernel that an index names, without repetitions."""
    operators = (each for each in index.values() if isinstance(each, dict))
    lists = (each.get("staticList") for each in operators)
    kernels = (kernel for each in lists if isinstance(each, list) for kernel in each)
    paths = (each.get("binPath") for each in kernels if isinstance(each, dict))
    return list(dict.fromkeys(each for each in paths if isinstance(each, str)))
