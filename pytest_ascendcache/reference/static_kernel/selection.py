"""Reselection: finding an operator's installed static kernel.

Source: facts ``static-kernel`` sections 2.5 and 3.2 (the reader side).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.opinfo import OperatorInfo, OpInfoError
from pytest_ascendcache.operators.simplified_key import simplified_key
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import PackageError, checked_path
from pytest_ascendcache.reference.static_kernel.index import INDEX_NAME, entries_by_key, parse
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE
from pytest_ascendcache.reference.static_kernel.soc import short_name

Installed = Mapping[tuple[str, str], Mapping[str, Any]]
"""The index entries of installed kernels by operator type and simplified key."""


class SelectionPolicy:
    """Reads the index of installed kernels, and verifies every kernel before it is used."""

    def read_index(self, fs: Fs, opp: Path, soc: str) -> Installed:
        """The kernels installed for a SoC. Empty if the index is missing or unreadable."""
        path = opp / AI_CORE / "config" / short_name(soc) / INDEX_NAME
        try:
            index = entries_by_key(parse(fs.read("select.index", path)))
            # ``Fs.read`` leaves the access time alone, but here it has to show the read.
            with contextlib.suppress(OSError):
                fs.renew_access_time("select.read", path)
            return index
        except (OSError, ValueError):
            return {}

    def find(
        self, fs: Fs, opp: Path, installed: Installed, info: OperatorInfo
    ) -> tuple[str, bytes] | None:
        """Symbol and object of an operator's kernel, or ``None`` if it is missing or damaged."""
        try:
            key = simplified_key(info)
        except OpInfoError:
            return None
        entry = installed.get((info.type, key))
        return None if entry is None else self.load(fs, opp, entry)

    def load(self, fs: Fs, opp: Path, entry: Mapping[str, Any]) -> tuple[str, bytes] | None:
        """The kernel of an index entry, as :meth:`find` returns it."""
        try:
            path = self.place(opp / AI_CORE, entry["binPath"])
            if self.leads_away(path, opp / AI_CORE):
                return None
            data = fs.read("select.object", path)
            metadata = json.loads(fs.read("select.metadata", path.with_suffix(".json")))
            if not self.digest_matches(data, metadata["sha256"]):
                return None
            symbol: str = entry["binDesc"]["kernelName"]
            return (symbol, data) if metadata["kernelName"] == symbol else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, PackageError):
            return None

    def place(self, ai_core: Path, name: str) -> Path:
        """The path of a kernel by its name in the index."""
        return ai_core / checked_path(name)

    def digest_matches(self, data: bytes, digest: object) -> bool:
        """Whether the object has the digest that the metadata records."""
        return digest == hashlib.sha256(data).hexdigest()

    def leads_away(self, path: Path, ai_core: Path) -> bool:
        """Whether a directory between the packages' directory and the kernel is a symbolic link."""
        between = path.parents[: len(path.parts) - len(ai_core.parts) - 1]
        return any(each.is_symlink() for each in between)
