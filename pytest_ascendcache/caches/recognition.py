"""Recognising which kind of cache a directory is.

It looks at paths and file names only. Users copy and rename caches, so the names of the files in a
directory count as well as its path.

Source: facts ``cann-operator-cache`` section 1.2, ``mindspore-incremental`` sections 1.1, 1.2 and
2.2, ``static-kernel`` sections 1.1 and 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath


class CacheKind(str, Enum):
    """The kind of a directory. The values appear in reports."""

    KERNEL_CACHE = "CANN operator cache"
    SOC = "CANN operator cache of one SoC"
    RANK = "directory of a rank"
    KERNEL_META = "MindSpore kernel_meta"
    PRE_BUILDS = "MindSpore tbe_prebuild_res"
    AKG = "MindSpore akg_kernel_meta"
    GRAPH_CACHE = "MindSpore graph cache"
    STATIC_OUTPUTS = "TorchAir static kernel outputs"
    STATIC_INSTALLED = "installed static kernels"
    KERNELS = "kernels of operators"
    SCRATCH = "build scratch"
    GE_GRAPHS = "graph cache of GE"
    PACKAGE_CONFIG = "index of an operator package"

    @property
    def holds_entries(self) -> bool:
        """Whether the directory itself contains cached files, not only directories with them."""
        return self not in (CacheKind.KERNEL_CACHE, CacheKind.RANK)

    @property
    def is_flat(self) -> bool:
        """Whether toolchains look for entries in the directory itself, and in none below it."""
        return self in (CacheKind.SOC, CacheKind.KERNEL_META, CacheKind.AKG, CacheKind.GRAPH_CACHE)


@dataclass(frozen=True)
class CachePlace:
    """A directory of a known kind.

    ``unit`` is the relative path of the directory whose files belong together: one SoC's entries,
    one rank's kernels, one run's outputs.
    """

    kind: CacheKind
    unit: str


CANN_STEM = re.compile(r"(?:lib)?te_\w*[0-9a-f]{32}", re.IGNORECASE)
KERNEL_STEM = re.compile(r"(?P<name>\w+?_\d+)_(?P<device>\d{1,4})", re.ASCII)
"""The stem of a MindSpore kernel: operator and hash (group ``name``), and the card's number."""

GRAPH_FILE = re.compile(r"(?P<role>\w*?)compile_(?:cache_(?P<number>\d+)\.mindir|dependency\.hash)")
_OUTPUTS = re.compile(
    r"ts[\d.:TZ+-]{9,40}_pid\d+_outputs"
    r"|\d[\d.:TZ+-]{8,40}_\d+(?:_kernel_aot_optimization_build)?_outputs"
)
_PACKAGE = re.compile(r"static_kernel_\d+(?:_\d+)?")
"""A directory that an installed package makes."""

_RANK = re.compile(r"rank_(\d+)")
_SCRATCH = re.compile(r"kernel_meta_(?:temp_)?\d{6,}")
"""Directories of one process of ATC or torch_npu (facts ``cann-operator-cache`` section 3.4)."""

KERNEL_NAME = re.compile(
    r"(?:lib)?(?:te_.+|\w+_(?:[0-9a-f]{32}){1,2}(?:_\w+)?)", re.IGNORECASE | re.DOTALL
)
"""The stem of a kernel's files: CANN's own begin with ``te_``, those of custom operators and of
Ascend C end in a digest."""

PID_INFO = "buildPidInfo.json"
_BY_NAME = {
    "kernel_cache": CacheKind.KERNEL_CACHE,
    "akg_kernel_meta": CacheKind.AKG,
    "graph_cache": CacheKind.GRAPH_CACHE,
    "aclnn_static_shape_kernel_outputs": CacheKind.STATIC_OUTPUTS,
    "static_kernel_compile_outputs": CacheKind.STATIC_OUTPUTS,
}


def recognise(
    path: PurePath, relative: str, parent: CachePlace | None, names: Collection[str]
) -> CachePlace | None:
    """Recognise a directory by its path, its parent's place and the first ``names`` in it.

    ``relative`` is its path below the directory that was searched. Returns ``None`` for a
    directory that is no cache.
    """
    if _SCRATCH.fullmatch(path.name):
        inside = parent is not None and parent.kind is CacheKind.SCRATCH
        return parent if inside else CachePlace(CacheKind.SCRATCH, relative)
    if parent is not None and parent.kind is CacheKind.KERNEL_CACHE:
        # The document's own example names kernel_cache, and ATC adds another one.
        return CachePlace(
            CacheKind.KERNEL_CACHE if path.name in _BY_NAME else CacheKind.SOC, relative
        )
    if parent is not None and parent.kind.is_flat:
        # What lies deeper is no part of the cache: nothing looks for it there.
        is_record = path.name == "tbe_prebuild_res" and parent.kind is CacheKind.KERNEL_META
        return CachePlace(CacheKind.PRE_BUILDS if is_record else parent.kind, relative)
    if parent is not None and parent.kind.holds_entries and parent.kind is not CacheKind.KERNELS:
        # Each run has an output directory of its own, next to files of any kind.
        inner = _by_path(path) if parent.kind is CacheKind.STATIC_OUTPUTS else None
        return CachePlace(inner, relative) if inner is not None else parent
    kind = _by_path(path) or _by_content(names)
    if path.name == "ai_core" and {"config", "config.ini"} <= {*names}:
        kind = CacheKind.STATIC_INSTALLED  # also where no package is left
    if path.parent.name == "config" and path.parents[1].name == "kernel":
        kind = CacheKind.PACKAGE_CONFIG
    if kind is CacheKind.SOC and path.name == "kernel_meta":
        kind = CacheKind.KERNELS  # what a debugging run keeps, which nothing reads again
    return None if kind is None else CachePlace(kind, relative)


def _by_path(path: PurePath) -> CacheKind | None:
    above, name = path.parent.name, path.name
    if name in _BY_NAME:
        return _BY_NAME[name]
    if above == "kernel_cache":
        return CacheKind.SOC
    if (above, name) == ("static_kernel", "ai_core"):
        return CacheKind.STATIC_INSTALLED
    if name == "kernel_meta" and rank_number(above) is not None:
        return CacheKind.KERNEL_META
    if rank_number(name) is not None:
        return CacheKind.RANK
    return CacheKind.STATIC_OUTPUTS if _OUTPUTS.fullmatch(name) else None


def _by_content(names: Collection[str]) -> CacheKind | None:
    """The kind of a directory by the names in it, since it may have been copied and renamed."""
    stems = {PurePath(name).stem for name in names if name.endswith((".json", ".o", ".so"))}
    infos = {PurePath(name).stem for name in names if name.endswith(".info")}
    if any(CANN_STEM.match(stem) for stem in stems) and not infos:
        return CacheKind.SOC
    if infos & {PurePath(name).stem for name in names if name.endswith((".so", ".ptx"))}:
        return CacheKind.AKG
    if any(KERNEL_STEM.fullmatch(stem) for stem in infos):
        return CacheKind.KERNEL_META
    if any(GRAPH_FILE.fullmatch(name) for name in names):
        return CacheKind.GRAPH_CACHE
    if {PurePath(each).stem for each in names if each.endswith(".idx")} and any(
        each.endswith((".om", ".rdcpkt")) for each in names
    ):
        return CacheKind.GE_GRAPHS
    if "op_cache.ini" in names and "kernel_cache" not in names:
        return CacheKind.KERNEL_CACHE
    if {"config", "version.info", "uninstall.sh"} <= {*names} or (
        "config" in names and any(map(_PACKAGE.fullmatch, names))
    ):
        return CacheKind.STATIC_INSTALLED
    if any(name.startswith("static_kernel_") and name.endswith(".run") for name in names):
        return CacheKind.STATIC_OUTPUTS
    if PID_INFO in names or any(_SCRATCH.fullmatch(name) for name in names):
        return CacheKind.SCRATCH
    both = {each[:-2] for each in names if each.endswith(".o")}
    both &= {each[:-5] for each in names if each.endswith(".json")}
    objects = (PurePath(name).stem for name in names if name.endswith((".o", ".so")))
    return CacheKind.KERNELS if both or any(map(KERNEL_NAME.fullmatch, objects)) else None


def split(name: str) -> tuple[str, str]:
    """Split a file's name into stem and suffix; the suffix includes the dot."""
    stem, dot, suffix = name.rpartition(".")
    return (stem, dot + suffix) if dot else (name, "")


def rank_number(name: str) -> int | None:
    """The number n of a directory named ``rank_<n>``, or ``None`` for another name."""
    match = _RANK.fullmatch(name)
    return None if match is None else int(match[1])
