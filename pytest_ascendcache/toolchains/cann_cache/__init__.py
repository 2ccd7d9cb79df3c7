"""CANN's own cache code, built from its public sources and wrapped in a command with ATC's
interface.

CANN's code does lookup, store, purge, aging, ``op_cache.ini``, versions, the parsing of debug
configurations and implementation modes, and the assembly of the key. ``docs/cann-source.md`` lists
what is ours.
"""

from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit
from pytest_ascendcache.toolchains.cann_cache.plan import SourceError
from pytest_ascendcache.toolchains.cann_cache.toolchain import cann_cache_toolchain

__all__ = ["Builder", "SourceError", "Toolkit", "cann_cache_toolchain"]
