"""Where toolchains that run networks keep their caches, and how the files are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_ascendcache.caches.akg_kernel import AkgKernel
from pytest_ascendcache.caches.entry import CachedUnit
from pytest_ascendcache.caches.graph_cache import CachedGraph
from pytest_ascendcache.caches.kernel_meta import RankKernel
from pytest_ascendcache.contract.ranks import kernel_meta


@dataclass(frozen=True)
class NetworkLayout:
    """The layout of one kind of cache.

    ``place`` returns its directory for an environment and a working directory; ``unit`` is the
    class of what is cached in it.
    """

    place: Callable[[Mapping[str, str], PurePath], PurePath]
    unit: type[CachedUnit]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of a unit's files."""
        return self.unit.suffixes

    def holds(self, path: Path) -> bool:
        """Whether the name of a file is that of a unit's file."""
        return self.unit.holds(path)

    def read(self, directory: Path) -> Mapping[str, CachedUnit]:
        """All units in a directory by stem."""
        return self.unit.read_all(directory)


def _base(environment: Mapping[str, str], work: PurePath) -> PurePath:
    return work / environment.get("MS_COMPILER_CACHE_PATH", "")


def _akg_kernel_meta(environment: Mapping[str, str], work: PurePath) -> PurePath:
    return _base(environment, work) / "akg_kernel_meta"


def _graph_cache(environment: Mapping[str, str], work: PurePath) -> PurePath:
    rank = (environment.get("RANK_SIZE") and environment.get("RANK_ID")) or "0"
    return _base(environment, work) / f"rank_{rank}" / "graph_cache"


KERNEL_META = NetworkLayout(kernel_meta, RankKernel)
"""Document M: ``rank_<RANK_ID>/kernel_meta``."""

AKG_KERNEL_META = NetworkLayout(_akg_kernel_meta, AkgKernel)
"""MindSpore's graph kernels; all ranks share the directory (facts ``mindspore-incremental``
section 1.1)."""

GRAPH_CACHE = NetworkLayout(_graph_cache, CachedGraph)
"""MindSpore's compiled networks. A single card uses ``rank_0`` whatever ``RANK_ID`` is (section
1.7)."""
