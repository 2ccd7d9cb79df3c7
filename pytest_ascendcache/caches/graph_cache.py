"""MindSpore's graph compile cache: one compiled network a file, and a digest of the script.

Source: facts ``mindspore-incremental`` sections 1.7 and 2.2. ``compile_cache_<i>.mindir`` is the
network that was compiled as number i of its process; ``compile_dependency.hash`` is the SHA-256
of the script and what it imports. Nothing has a digest of the compiled network.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches.akg_kernel import rewrite

_NAME = re.compile(r"(?P<role>[A-Z_]*?)compile_cache_\d+", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CachedGraph:
    """A compiled network and the digest that is to vouch for it."""

    stem: str
    directory: Path

    @property
    def object_path(self) -> Path:
        """The compiled network."""
        return self.directory / f"{self.stem}.mindir"

    @property
    def digest_path(self) -> Path:
        """The digest of the script; one for all networks of a directory."""
        match = _NAME.fullmatch(self.stem)
        return self.directory / f"{match['role'] if match else ''}compile_dependency.hash"

    @property
    def paths(self) -> tuple[Path, ...]:
        """Both files."""
        return (self.object_path, self.digest_path)

    @property
    def operator_type(self) -> str:
        """A file is a whole network; its name says nothing of operators."""
        return ""

    def problems(self) -> list[str]:
        """What keeps this from being whole, as far as it can be seen from outside."""
        found = [f"{path.name} is missing" for path in self.paths if not path.is_file()]
        if not found and not self.object_path.stat().st_size:
            found.append(f"{self.object_path.name} is empty")
        if not found and not _DIGEST.fullmatch(self.digest_path.read_text(errors="replace")):
            found.append(f"{self.digest_path.name} is no SHA-256 digest")
        return found

    @property
    def is_valid(self) -> bool:
        """Whether nothing keeps the network from being used."""
        return not self.problems()

    def replace_constants(self, known: Iterable[float], new: float) -> None:
        """Put ``new`` in the place of float32 constants of the network. File times stay.

        Raises:
            ValueError: where it has none of the ``known`` ones.
        """
        data = changed = self.object_path.read_bytes()
        for each in known:
            changed = changed.replace(struct.pack("<f", each), struct.pack("<f", new))
        if changed == data:
            raise ValueError(f"{self.object_path.name} has no constant that could be marked")
        rewrite(self.object_path, changed)


def read_cached_graphs(directory: Path) -> dict[str, CachedGraph]:
    """Every network of a ``graph_cache`` directory by stem."""
    if not directory.is_dir():
        return {}
    stems = {path.stem for path in directory.iterdir() if is_cached_graph(path)}
    return {stem: CachedGraph(stem, directory) for stem in sorted(stems)}


def is_cached_graph(path: Path) -> bool:
    """Whether a file is named as a compiled network."""
    return path.suffix == ".mindir" and _NAME.fullmatch(path.stem) is not None
