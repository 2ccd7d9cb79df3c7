"""The layout of CANN's operator cache.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CacheLayout:
    """The paths below the directory that ``--op_compiler_cache_dir`` names."""

    root: Path

    @property
    def kernel_cache(self) -> Path:
        """The directory that holds one directory per SoC."""
        return self.root / "kernel_cache"

    @property
    def ini_candidates(self) -> tuple[Path, Path]:
        """``op_cache.ini`` where CANN keeps it, and where the document says it is."""
        return (self.kernel_cache / "op_cache.ini", self.root / "op_cache.ini")

    def soc(self, soc: str) -> Path:
        return self.kernel_cache / soc

    def socs(self) -> list[str]:
        if not self.kernel_cache.is_dir():
            return []
        return sorted(each.name for each in self.kernel_cache.iterdir() if each.is_dir())
