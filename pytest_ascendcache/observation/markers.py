"""The markers in the entries of a cache: canaries that are planted, birthmarks that are seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from pathlib import Path

from pytest_ascendcache.caches import (
    CacheLayout,
    Canary,
    find_canaries,
    plant_canary,
    read_entries,
)
from pytest_ascendcache.toolchains import CompileResult


class Markers:
    """Marks entries while it is ``on``. ``tokens`` are the canaries; entries ``left_alone`` are
    never marked. With ``birthmarks``, kernels carry tokens of their own and need no canary."""

    def __init__(self, trusted: bool, birthmarks: bool) -> None:
        self._trusted, self._birthmarks = trusted, birthmarks
        self.tokens: dict[str, Canary] = {}
        self.left_alone: set[str] = set()
        self._born: set[str] = set()
        self.trust()

    def inherited(self) -> Markers:
        """The same markers for a copy of the cache, which may turn them on or off for itself."""
        return copy(self)

    def trust(self) -> None:
        """Mark entries from now on, if the toolchain serves marked ones."""
        self.on = self._trusted and not self._birthmarks

    def mark(self, layout: CacheLayout) -> None:
        """Mark every valid entry that has no marker yet."""
        if not self.on:
            return
        for soc in layout.socs():
            for entry in read_entries(layout.soc(soc)).values():
                if entry.stem in self.left_alone:
                    continue
                if entry.is_valid and not find_canaries(entry.object_bytes or b""):
                    canary = plant_canary(entry)
                    self.tokens[canary.token] = canary

    @property
    def planted(self) -> Mapping[str, Canary] | None:
        """The canaries by token; None if entries are not marked, so that none tells nothing."""
        return dict(self.tokens) if self.on else None

    def born_before(self, result: CompileResult) -> frozenset[str] | None:
        """The birthmarks that were delivered before this result; None if there are none here."""
        if not self._birthmarks:
            return None
        before = frozenset(self._born)
        for path in filter(None, result.delivered):
            self._born |= find_canaries(path.read_bytes())
        return before


def forget_reads(root: Path) -> None:
    """Set access times an hour before modification, so that the next read shows under relatime."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            modified = path.stat().st_mtime_ns
            os.utime(path, ns=(modified - 3600 * 10**9, modified))
