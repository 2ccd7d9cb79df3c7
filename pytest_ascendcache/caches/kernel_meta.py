"""The kernels of one rank: ``.o``, ``.json`` and ``.info`` in a ``kernel_meta`` directory.

Source: document M, overview; facts ``mindspore-incremental`` sections 1.2 and 1.3.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches.elf import rename_symbol
from pytest_ascendcache.caches.entry import Entry, sha256

_STEM = re.compile(r"(?P<name>\w+?)_\d+_\d+", re.ASCII)


@dataclass(frozen=True)
class RankKernel(Entry):
    """The three files of one kernel. Any may be missing."""

    @property
    def info_path(self) -> Path:
        """The ``.info`` file."""
        return self.directory / f"{self.stem}.info"

    @cached_property
    def info(self) -> Any:
        """The parsed ``.info``, or ``None`` where it is missing or not JSON."""
        try:
            return json.loads(self.info_path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    @property
    def operator_type(self) -> str:
        """The operator as the file name spells it."""
        match = _STEM.fullmatch(self.stem)
        return match["name"] if match else self.stem

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        """All three files."""
        return (self.object_path, self.metadata_path, self.info_path)

    def problems(self) -> list[str]:
        """What keeps this from being a whole kernel; empty for a valid one."""
        found = super().problems()
        if not self.info_path.exists():
            found.append("the .info file is missing")
        elif not isinstance(self.info, dict):
            found.append("the .info file is not a JSON object")
        return found

    def put_object(self, data: bytes, symbol: str) -> None:
        """Put another kernel in this one's place: valid as far as any digest can tell.

        ``symbol`` is the name of the kernel in ``data``. File times stay as they were.

        Raises:
            ValueError: where this is no whole kernel, or ``data`` has no such symbol.
        """
        if problems := self.problems():
            raise ValueError(f"{self.stem} is no whole kernel: {'; '.join(problems)}")
        changed = rename_symbol(data, symbol, self.metadata["kernelName"])
        metadata = {**self.metadata, "sha256": sha256(changed)}
        with _times_kept(self.object_path, self.metadata_path):
            self.object_path.write_bytes(changed)
            self.metadata_path.write_text(json.dumps(metadata, indent=4, sort_keys=True))


def read_kernel_meta(directory: Path) -> dict[str, RankKernel]:
    """Every kernel of a ``kernel_meta`` directory by stem, parts of one included.

    MindSpore keeps other files there as well; a kernel's name ends with a hash and a device.
    """
    if not directory.is_dir():
        return {}
    stems = {path.stem for path in directory.iterdir() if is_rank_kernel(path)}
    return {stem: RankKernel(stem, directory) for stem in sorted(stems)}


def is_rank_kernel(path: Path) -> bool:
    """Whether a file is named as one of a kernel."""
    return path.suffix in {".o", ".json", ".info"} and _STEM.fullmatch(path.stem) is not None


@contextmanager
def _times_kept(*paths: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for path in paths:
            before = path.stat()
            stack.callback(os.utime, path, ns=(before.st_atime_ns, before.st_mtime_ns))
        yield
