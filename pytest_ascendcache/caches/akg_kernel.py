"""The kernels of MindSpore's graph kernel cache: ``akg_kernel_meta``, one fused operator each.

Source: facts ``mindspore-incremental`` sections 1.2, 1.3 and 2.2 (release 2.10.0 on a CPU). The
object ``.o`` is linked into the library ``.so``, and only that is loaded; the metadata has the
digests of both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches.elf import ElfError, object_size, rename_symbol
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.caches.snapshot import read_quietly

SUFFIXES = (".info", ".o", ".so", ".json")
"""In the order they are written; the last makes a kernel whole."""

_STEM = re.compile(r"Fused_(?P<name>\w+?)_\d+", re.ASCII)
_DIGESTS = (("sha256", ".so"), ("objSha256", ".o"))


@dataclass(frozen=True)
class AkgKernel:
    """The four files of one fused kernel. Any may be missing."""

    stem: str
    directory: Path

    def path(self, suffix: str) -> Path:
        """One of its files."""
        return self.directory / f"{self.stem}{suffix}"

    @property
    def paths(self) -> tuple[Path, ...]:
        """All four files."""
        return tuple(self.path(suffix) for suffix in SUFFIXES)

    @property
    def object_path(self) -> Path:
        """The library, which is what is loaded."""
        return self.path(".so")

    @property
    def metadata_path(self) -> Path:
        """The ``.json`` file."""
        return self.path(".json")

    @property
    def operator_type(self) -> str:
        """The operators it was fused from, as the file name spells them."""
        match = _STEM.fullmatch(self.stem)
        return match["name"] if match else self.stem

    @cached_property
    def object(self) -> bytes | None:
        """The bytes of the ``.o`` file, or ``None`` where there is none."""
        return _bytes(self.path(".o"))

    @cached_property
    def metadata(self) -> Any:
        """The parsed metadata, or ``None`` where it is missing or not JSON."""
        return _parsed(self.metadata_path)

    @cached_property
    def info(self) -> Any:
        """The parsed ``.info``, or ``None`` where it is missing or not JSON."""
        return _parsed(self.path(".info"))

    def problems(self) -> list[str]:
        """What keeps this from being a whole kernel; empty for a valid one."""
        found = [f"the {path.suffix} file is missing" for path in self.paths if not path.is_file()]
        metadata = self.metadata
        if not isinstance(metadata, dict):
            return [*found, "the metadata is not a JSON object"]
        if not isinstance(self.info, dict):
            found.append("the .info file is not a JSON object")
        for field, suffix in _DIGESTS:
            data = _bytes(self.path(suffix))
            if data is not None and metadata.get(field) != sha256(data):
                found.append(f"the metadata's {field} is not that of the {suffix} file")
        try:
            object_size(_bytes(self.object_path) or b"")
        except ElfError as error:
            found.append(f"the library is not a whole ELF object: {error}")
        return found

    @property
    def is_valid(self) -> bool:
        """Whether nothing keeps the kernel from being used."""
        return not self.problems()

    def put_object(self, data: bytes, symbol: str) -> None:
        """Put another kernel in this one's place: linked as MindSpore links it, digests corrected.

        ``symbol`` is the name of the kernel in the object ``data``. File times stay as they were.

        Raises:
            ValueError: where this is no whole kernel, ``data`` has no such symbol, or there is
                no ``g++`` to link it with.
        """
        if problems := self.problems():
            raise ValueError(f"{self.stem} is no whole kernel: {'; '.join(problems)}")
        changed = rename_symbol(data, symbol, self.metadata["kernelName"])
        library = _linked(changed)
        metadata = {**self.metadata, "sha256": sha256(library), "objSha256": sha256(changed)}
        for suffix, content in (
            (".o", changed),
            (".so", library),
            (".json", json.dumps(metadata, indent=4, sort_keys=True).encode()),
        ):
            rewrite(self.path(suffix), content)


def read_akg_kernels(directory: Path) -> dict[str, AkgKernel]:
    """Every kernel of an ``akg_kernel_meta`` directory by stem, parts of one included."""
    if not directory.is_dir():
        return {}
    stems = {path.stem for path in directory.iterdir() if is_akg_kernel(path)}
    return {stem: AkgKernel(stem, directory) for stem in sorted(stems)}


def is_akg_kernel(path: Path) -> bool:
    """Whether a file is named as one of a kernel."""
    return path.suffix in SUFFIXES and _STEM.fullmatch(path.stem) is not None


def rewrite(path: Path, content: bytes) -> None:
    """Replace a file that may be read-only; its mode and times stay as they were."""
    before = path.stat()
    path.unlink()
    path.write_bytes(content)
    path.chmod(before.st_mode & 0o7777)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _linked(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="ascendcache-link-") as name:
        source, target = Path(name, "kernel.o"), Path(name, "kernel.so")
        source.write_bytes(data)
        command = ["g++", "-shared", "-fPIC", "-o", str(target), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"the kernel cannot be linked: {error}") from None
        return target.read_bytes()


def _bytes(path: Path) -> bytes | None:
    try:
        return b"".join(read_quietly(path))
    except OSError:
        return None


def _parsed(path: Path) -> Any:
    try:
        return json.loads(_bytes(path) or b"")
    except (ValueError, RecursionError):
        return None
