"""CANN's own cache code, built from its public sources and put behind an atc-compatible command.

What is CANN's: lookup, store, purge, aging, ``op_cache.ini``, versions, the parsers of debug
configurations and implementation modes, the assembly of the key. What is ours is listed in
``docs/cann-source.md``.
"""

from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit
from pytest_ascendcache.toolchains.cann_cache.errors import SourceError
from pytest_ascendcache.toolchains.cann_cache.toolchain import (
    CannCache,
    cann_cache_toolchain,
    toolchain_of,
)

__all__ = [
    "Builder",
    "CannCache",
    "SourceError",
    "Toolkit",
    "cann_cache_toolchain",
    "toolchain_of",
]
