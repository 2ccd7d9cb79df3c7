"""What document K promises about static kernels, as pure functions.

Source: document K (static kernel compilation); facts ``static-kernel`` sections 1, 2.5 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
"""The variable for the number of cards of a node."""

MODE = "reduce-overhead"
"""The only mode with static kernels."""

PRODUCTS = re.compile(r"Ascend910B[1-4](C|-1)?|Ascend910_93\d\d")
"""SoC names of Atlas A2 and Atlas A3 (document K, constraints)."""

ROOT = "aclnn_static_shape_kernel_outputs"
"""The directory of all output, below the build directory."""

ROOTS = (ROOT, "static_kernel_compile_outputs")
"""The document's output directory, and that of npugraph_ex (facts section 1.1)."""

_TIME = r"\d[\d._:TZ+-]{7,}"
"""A time in any form of numbers: the document only says that it is one."""
PACKAGE_NAME = re.compile(rf"static_kernel_{_TIME}\.run")
"""``static_kernel_<datetime>.run``: 12 digits up to CANN 8, later 18 and a process id."""


@dataclass(frozen=True)
class TreeNames:
    """The folder names of one version of the client; ``pid`` is a process id.

    ``target`` are the suffixes of the folders that may contain the target operators.
    """

    name: str
    outputs: re.Pattern[str]
    target: tuple[str, ...]


DOCUMENT = TreeNames("document", re.compile(rf"{_TIME}_(?P<pid>\d+)_outputs"), ("",))
LATER = TreeNames(
    "later",
    re.compile(rf"ts{_TIME}_pid(?P<pid>\d+)_outputs"),
    ("", "_opcompile", "_opcompile_selected", "_opcompile_gathered"),
)
TREES = (DOCUMENT, LATER)
"""The document's folder names, and those of later versions (facts section 1.1)."""


def local_world_size(text: str | None, world: int) -> int | None:
    """The cards of a node according to ``LOCAL_WORLD_SIZE``, for ``world`` cards in total; ``None``
    if the value must be refused. A single card needs none."""
    if world == 1:
        return 1
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    local = int(text)
    return local if local > 0 and world % local == 0 else None


def first_cards(world: int, local: int) -> frozenset[int]:
    """The first card of each node, which compiles and installs for the node."""
    return frozenset(range(0, world, local))


def is_refused_with_profiler(record_op_args: bool, skip_first: int) -> bool:
    """Whether static kernels are refused with these settings of the profiler."""
    return record_op_args and skip_first == 0


Index = Mapping[tuple[str, str], Mapping[str, Any]]
"""Installed kernels: the entries of the shared index by operator type and simplified key."""


Union = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""Like an index, with all entries that a key may have."""


def union(packages: Iterable[Index]) -> Union:
    """What the index of packages may have: a key has the entry of any package that has the key."""
    merged: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for package in packages:
        for key, entry in package.items():
            merged.setdefault(key, []).append(entry)
    return merged
