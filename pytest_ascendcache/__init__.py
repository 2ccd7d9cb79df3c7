"""Judges the operator compile caches of Ascend toolchains from outside, promise by promise.

What tests need is imported from here; docs/api.md describes it. Names are loaded when they are
used, so that the plugin costs nothing in runs that do not use it. Everything else is internal, but
for ``pytest_ascendcache.toolchains``, which adapters of other toolchains build on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_ascendcache.caches import Entry
    from pytest_ascendcache.contract import (
        CacheMode,
        CompileOptions,
        DebugConfig,
        Delivered,
        Fate,
        Outcome,
        PrecisionFile,
        SelectMode,
    )
    from pytest_ascendcache.observation import (
        CacheUnderTest,
        Evidence,
        NetworkRun,
        NetworkUnderTest,
        NotDecidable,
        Run,
        StaticKernelsUnderTest,
    )
    from pytest_ascendcache.operators import OperatorSpec, TensorDesc, read_single_op
    from pytest_ascendcache.operators.network import read_network
    from pytest_ascendcache.operators.short import operator
    from pytest_ascendcache.qualification.toolchain import reference_toolchain
    from pytest_ascendcache.ranks import Rank
    from pytest_ascendcache.toolchains import ToolchainError
    from pytest_ascendcache.words.wrong_use import WrongUse

__all__ = [
    "CacheMode",
    "CacheUnderTest",
    "CompileOptions",
    "DebugConfig",
    "Delivered",
    "Entry",
    "Evidence",
    "Fate",
    "NetworkRun",
    "NetworkUnderTest",
    "NotDecidable",
    "OperatorSpec",
    "Outcome",
    "PrecisionFile",
    "Rank",
    "Run",
    "SelectMode",
    "StaticKernelsUnderTest",
    "TensorDesc",
    "ToolchainError",
    "WrongUse",
    "operator",
    "read_network",
    "read_single_op",
    "reference_toolchain",
]

_PLACES = {
    "caches": ("Entry",),
    "contract": (
        *("CacheMode", "CompileOptions", "DebugConfig", "Delivered", "Fate", "Outcome"),
        *("PrecisionFile", "SelectMode"),
    ),
    "observation": (
        *("CacheUnderTest", "Evidence", "NetworkRun", "NetworkUnderTest", "NotDecidable", "Run"),
        "StaticKernelsUnderTest",
    ),
    "operators": ("OperatorSpec", "TensorDesc", "read_single_op"),
    "operators.network": ("read_network",),
    "operators.short": ("operator",),
    "qualification.toolchain": ("reference_toolchain",),
    "ranks": ("Rank",),
    "toolchains": ("ToolchainError",),
    "words.wrong_use": ("WrongUse",),
}
"""Where the names are defined."""


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{place}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
