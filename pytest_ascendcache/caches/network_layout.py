"""Where toolchains that run networks keep what they compiled, and how it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol

from pytest_ascendcache.caches.akg_kernel import SUFFIXES as AKG_SUFFIXES
from pytest_ascendcache.caches.akg_kernel import is_akg_kernel, read_akg_kernels
from pytest_ascendcache.caches.graph_cache import is_cached_graph, read_cached_graphs
from pytest_ascendcache.caches.kernel_meta import is_rank_kernel, read_kernel_meta
from pytest_ascendcache.contract.ranks import SUFFIXES, kernel_meta


class CachedUnit(Protocol):
    """What is reused as one: a kernel with its files, or a compiled network."""

    @property
    def stem(self) -> str:
        """The name of its files without suffix."""

    @property
    def directory(self) -> Path:
        """Where they are."""

    @property
    def object_path(self) -> Path:
        """The file that is loaded."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""

    @property
    def operator_type(self) -> str:
        """The operator as the name spells it."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing keeps it from being used."""

    def problems(self) -> list[str]:
        """What does."""


@dataclass(frozen=True)
class NetworkLayout:
    """How one kind of cache is laid out.

    ``place`` gives the directory from the environment and the working directory; ``read``
    everything that is cached in it; ``suffixes`` are the files of a whole unit, of which
    ``holds`` knows the names.
    """

    name: str
    place: Callable[[Mapping[str, str], PurePath], PurePath]
    read: Callable[[Path], Mapping[str, CachedUnit]]
    suffixes: tuple[str, ...]
    holds: Callable[[Path], bool]


def _base(environment: Mapping[str, str], work: PurePath) -> PurePath:
    return work / environment.get("MS_COMPILER_CACHE_PATH", "")


KERNEL_META = NetworkLayout("kernel_meta", kernel_meta, read_kernel_meta, SUFFIXES, is_rank_kernel)
"""Document M: ``rank_<RANK_ID>/kernel_meta``."""

AKG_KERNEL_META = NetworkLayout(
    "akg_kernel_meta",
    lambda environment, work: _base(environment, work) / "akg_kernel_meta",
    read_akg_kernels,
    AKG_SUFFIXES,
    is_akg_kernel,
)
"""MindSpore's graph kernels; not scoped by rank (facts ``mindspore-incremental`` section 1.1)."""


def _graph_cache(environment: Mapping[str, str], work: PurePath) -> PurePath:
    rank = (environment.get("RANK_SIZE") and environment.get("RANK_ID")) or "0"
    return _base(environment, work) / f"rank_{rank}" / "graph_cache"


GRAPH_CACHE = NetworkLayout(
    "graph_cache",
    _graph_cache,
    read_cached_graphs,
    (".mindir",),
    is_cached_graph,
)
"""MindSpore's compiled networks; one card on its own is ``rank_0`` whatever ``RANK_ID`` says
(section 1.7)."""
