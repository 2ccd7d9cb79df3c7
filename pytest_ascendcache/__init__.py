"""Judges the operator compile caches of Ascend toolchains from outside, promise by promise.

What tests need is imported from here; docs/api.md describes it. Names are loaded when they are
used, so that the plugin costs nothing in runs that do not use it. Everything else is internal, but
for ``pytest_ascendcache.toolchains``, which adapters of other toolchains build on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_ascendcache.caches import Entry as Entry
    from pytest_ascendcache.contract import CacheMode as CacheMode
    from pytest_ascendcache.contract import CompileOptions as CompileOptions
    from pytest_ascendcache.contract import DebugConfig as DebugConfig
    from pytest_ascendcache.contract import Delivered as Delivered
    from pytest_ascendcache.contract import Fate as Fate
    from pytest_ascendcache.contract import Outcome as Outcome
    from pytest_ascendcache.contract import PrecisionFile as PrecisionFile
    from pytest_ascendcache.contract import SelectMode as SelectMode
    from pytest_ascendcache.observation import CacheUnderTest as CacheUnderTest
    from pytest_ascendcache.observation import Evidence as Evidence
    from pytest_ascendcache.observation import NetworkRun as NetworkRun
    from pytest_ascendcache.observation import NetworkUnderTest as NetworkUnderTest
    from pytest_ascendcache.observation import NotDecidable as NotDecidable
    from pytest_ascendcache.observation import Run as Run
    from pytest_ascendcache.observation import StaticKernelsUnderTest as StaticKernelsUnderTest
    from pytest_ascendcache.operators import OperatorSpec as OperatorSpec
    from pytest_ascendcache.operators import TensorDesc as TensorDesc
    from pytest_ascendcache.operators import read_single_op as read_single_op
    from pytest_ascendcache.operators.network import read_network as read_network
    from pytest_ascendcache.operators.short import operator as operator
    from pytest_ascendcache.qualification.toolchain import (
        reference_toolchain as reference_toolchain,
    )
    from pytest_ascendcache.ranks import Rank as Rank
    from pytest_ascendcache.toolchains import ToolchainError as ToolchainError
    from pytest_ascendcache.words.wrong_use import WrongUse as WrongUse


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

__all__ = sorted(name for names in _PLACES.values() for name in names)


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{place}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
