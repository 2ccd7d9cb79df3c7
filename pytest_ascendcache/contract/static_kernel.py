"""What document K says of static kernels, as pure functions.

Source: document K (static kernel compilation); facts ``static-kernel`` sections 1, 2.5 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
"""The variable that says how many cards a node has."""

MODE = "reduce-overhead"
"""The one mode static kernels are for."""

PRODUCTS = re.compile(r"Ascend910B[1-4](C|-1)?|Ascend910_93\d\d")
"""SoC names of Atlas A2 and Atlas A3 (document K, constraints)."""

ROOT = "aclnn_static_shape_kernel_outputs"
"""The directory of all output, below the build directory."""

ROOTS = (ROOT, "static_kernel_compile_outputs")
"""The document's, and that of npugraph_ex (facts section 1.1)."""

PACKAGE_NAME = re.compile(r"static_kernel_\d{12}(\d{6})?(_\d+)?\.run")
"""``static_kernel_<datetime>.run``: 12 digits up to CANN 8, later 18 and a process id."""


@dataclass(frozen=True)
class TreeNames:
    """How one version of the client names its folders; ``pid`` is a process id.

    ``target`` are the suffixes of folders that may hold the target operators.
    """

    name: str
    outputs: re.Pattern[str]
    target: tuple[str, ...]


DOCUMENT = TreeNames("document", re.compile(r"\d{20}_(?P<pid>\d+)_outputs"), ("",))
LATER = TreeNames(
    "later",
    re.compile(r"ts\d{20}_pid(?P<pid>\d+)_outputs"),
    ("", "_opcompile", "_opcompile_selected", "_opcompile_gathered"),
)
TREES = (DOCUMENT, LATER)
"""The document's naming, and that of later versions (facts section 1.1)."""


def local_world_size(text: str | None, world: int) -> int | None:
    """Cards of a node as ``LOCAL_WORLD_SIZE`` gives them for ``world`` cards; ``None`` where they
    have to be refused. A card on its own needs no variable."""
    if world == 1:
        return 1
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    local = int(text)
    return local if local > 0 and world % local == 0 else None


def first_cards(world: int, local: int) -> frozenset[int]:
    """The first card of each node: those that compile and install."""
    return frozenset(range(0, world, local))


def is_refused_with_profiler(record_op_args: bool, skip_first: int) -> bool:
    """Whether the profiler's settings exclude static kernels."""
    return record_op_args and skip_first == 0


Index = Mapping[tuple[str, str], Mapping[str, Any]]
"""Installed kernels: operator type and simplified key -> the entry of the shared index."""


def union(packages: Iterable[Index]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The index of packages in the order of their installs: of equal keys the last one counts."""
    merged: dict[tuple[str, str], Mapping[str, Any]] = {}
    for package in packages:
        merged.update(package)
    return merged
