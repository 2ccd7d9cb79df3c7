"""The layouts of caches: CANN's operator cache, and the caches of toolchains that run networks.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` section 1; document
M, overview; facts ``mindspore-incremental`` sections 1.2 and 1.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from pytest_ascendcache.caches.akg_kernel import AkgKernel
from pytest_ascendcache.caches.entry import CachedUnit, Entry
from pytest_ascendcache.caches.graph_cache import CachedGraph
from pytest_ascendcache.contract.ranks import SUFFIXES, kernel_meta


@dataclass(frozen=True)
class CacheLayout:
    """The paths below the directory that ``--op_compiler_cache_dir`` names."""

    root: Path

    @property
    def kernel_cache(self) -> Path:
        """The directory that holds one directory per SoC. No document says where it is; CANN's is
        in the root, but it may be deeper."""
        usual = self.root / "kernel_cache"
        deeper = () if usual.exists() else (*_below(self.root, 1), *_below(self.root, 2))
        return min(deeper, default=usual)

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


def _below(root: Path, levels: int) -> Iterable[Path]:
    return root.glob(f"{'*/' * levels}kernel_cache")


_WORDS = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class RankKernel(Entry):
    """The files of a kernel in ``kernel_meta``. Its stem ends with a hash and the card's number."""

    suffixes = SUFFIXES
    stems = re.compile(r"(?P<type>\w+?)_(?:\d+|[0-9a-f]{16,})_\d+", re.ASCII)

    @cached_property
    def info(self) -> Any:
        """What the ``.info`` file says: a JSON object, or the words of a text, because the document
        does not say that it is JSON. None if it is missing or neither."""
        parsed, content = super().info, self.content(".info") or b""
        if parsed is not None or b"\0" in content or content.lstrip()[:1] in (b"", b"{", b"["):
            return parsed
        try:
            return _WORDS.findall(content.decode())
        except UnicodeDecodeError:
            return None

    def problems(self) -> list[str]:
        problems = super().problems()
        if not self.info_path.exists():
            problems.append("the .info file is missing")
        elif not self.info or not isinstance(self.info, (dict, list)):
            problems.append("the .info file is not a JSON object")
        return problems

    def is_of(self, operator_type: str) -> bool:
        """Whether it is a kernel of a type, by its name or by what its ``.info`` says: no document
        gives a name's form."""
        wanted = _plain(operator_type)
        said = (_plain(each) for each in leaves(self.info) if isinstance(each, str))
        return _plain(self.operator_type) == wanted or wanted in said


def leaves(value: Any) -> list[Any]:
    """All keys, strings and numbers of a JSON value."""
    if isinstance(value, dict):
        return [leaf for pair in value.items() for each in pair for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def _plain(text: str) -> str:
    return text.replace("_", "").lower()


@dataclass(frozen=True)
class NetworkLayout:
    """The layout of one kind of cache.

    ``place`` returns its directory for an environment and a working directory; ``unit`` is the
    class of what is cached in it.
    """

    place: Callable[[Mapping[str, str], PurePath], PurePath]
    unit: type[CachedUnit]


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
