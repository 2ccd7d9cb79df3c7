"""Which operators the cache serves and stores in each cache mode.

Source: document C, parameter constraints.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ascendcache.reference.debug import DebugFile, DebugRequest
from pytest_ascendcache.reference.edition import PRESENT, Played


@dataclass(frozen=True)
class CacheUse:
    """What one operator's compile may do with the cache."""

    lookup: bool
    store: bool
    replace: bool = False


class ModePolicy:
    """The cache mode and the debug switches that override it."""

    edition: Played = PRESENT

    def opens_cache(self, mode: str, level: int, config: DebugFile | None) -> bool:
        """Whether this run touches the cache directory at all.

        With a debug level, or a debug configuration without a list, no operator uses the cache, and
        not even force removes anything.
        """
        if level in self.edition.levels:
            return False
        if config is not None and (config.listed is None or not self.edition.list_excepts):
            return False
        return mode != "disable"

    def purges(self, mode: str) -> bool:
        """Whether the run first removes the existing entries of the SoC."""
        return mode == "force"

    def use(self, mode: str, debug: DebugRequest) -> CacheUse:
        """What the compile of one operator may do with an opened cache."""
        if debug.active:
            return CacheUse(lookup=False, store=False)
        return CacheUse(lookup=mode == "enable", store=True, replace=mode == "force")
