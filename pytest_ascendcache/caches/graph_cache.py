"""MindSpore's graph compile cache: one compiled network per file, and a digest of the script.

Source: facts ``mindspore-incremental`` sections 1.7 and 2.2. ``compile_cache_<i>.mindir`` is the
i-th network that its process compiled. ``compile_dependency.hash`` is the SHA-256 of the script
and of what it imports. No file contains a digest of the compiled network.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches.entry import CachedUnit, rewrite

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CachedGraph(CachedUnit):
    """A compiled network, and the digest that decides whether it is reused."""

    suffixes = (".mindir",)
    stems = re.compile(r"(?P<role>[A-Z_]*?)compile_cache_\d+", re.ASCII)

    @property
    def object_path(self) -> Path:
        """The path of the compiled network."""
        return self.path(".mindir")

    @property
    def digest_path(self) -> Path:
        """The path of the script's digest, which all networks of a directory share."""
        match = self.stems.fullmatch(self.stem)
        return self.directory / f"{match['role'] if match else ''}compile_dependency.hash"

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.object_path, self.digest_path)

    @property
    def operator_type(self) -> str:
        """Empty, because a file is a whole network."""
        return ""

    def problems(self) -> list[str]:
        problems = [f"{path.name} is missing" for path in self.paths if not path.is_file()]
        if not problems and not self.object_path.stat().st_size:
            problems.append(f"{self.object_path.name} is empty")
        if not problems and not _DIGEST.fullmatch(self.digest_path.read_text(errors="replace")):
            problems.append(f"{self.digest_path.name} is no SHA-256 digest")
        return problems

    def replace_constants(self, known: Iterable[float], new: float) -> None:
        """Replace the ``known`` float32 constants of the network by ``new``. File times stay.

        Raises ``ValueError`` if the network has none of them.
        """
        data = changed = self.object_path.read_bytes()
        for constant in known:
            changed = changed.replace(struct.pack("<f", constant), struct.pack("<f", new))
        if changed == data:
            raise ValueError(f"{self.object_path.name} has no constant that could be marked")
        rewrite(self.object_path, changed)
