"""Static kernels that are installed below an operator package: index, packages, kernels.

Source: facts ``static-kernel`` sections 2.5 and 3.2.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches.elf import ElfError, object_size, rename_symbol
from pytest_ascendcache.caches.entry import sha256

INDEX = "binary_info_config.json"

Key = tuple[str, str]
"""Operator type and simplified key."""


class TornIndex(Exception):
    """An index file exists but is not a valid index."""


def entries_of(data: bytes) -> dict[Key, Mapping[str, Any]]:
    """The entries of one index file, by operator type and simplified key.

    Raises ``ValueError`` if it is not a valid index.
    """
    try:
        return {
            (kind, each["simplifiedKey"]): {**each, "binPath": each["binPath"]}
            for kind, listed in json.loads(data).items()
            for each in listed["staticList"]
        }
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no index ({error!r})") from None


@dataclass(frozen=True)
class InstalledKernels:
    """The static kernels below the operator package ``opp``, if any are installed."""

    opp: Path

    @property
    def ai_core(self) -> Path:
        return self.opp / "static_kernel" / "ai_core"

    @property
    def packages(self) -> frozenset[str]:
        """The names of directories with a kernel or an ``uninstall.sh``, wherever they have it.
        Whether their kernels are offered, only :meth:`index` tells."""
        return frozenset(
            place.name
            for place in self.ai_core.glob("[!.]*/")
            for _, _, files in os.walk(place)
            if any(each == "uninstall.sh" or each.endswith(".o") for each in files)
        )

    @property
    def chips(self) -> tuple[str, ...]:
        """The chips that have an index, by the names of their directories in ``config``."""
        return tuple(sorted(each.parent.name for each in self.index_files))

    @property
    def index_files(self) -> list[Path]:
        """The index of each chip."""
        return self._indexes("*")

    def _indexes(self, chip: str) -> list[Path]:
        return sorted((self.ai_core / "config").glob(f"{chip}/{INDEX}"))

    def index(self, chip: str = "*") -> dict[Key, Mapping[str, Any]]:
        """The entries of the shared index of one chip, or of every chip; empty without an index.

        Raises ``TornIndex`` if an index file is not valid.
        """
        entries: dict[Key, Mapping[str, Any]] = {}
        for path in self._indexes(chip):
            try:
                entries.update(entries_of(path.read_bytes()))
            except FileNotFoundError:
                continue  # uninstalled since the directory was listed
            except (OSError, ValueError) as error:
                raise TornIndex(f"{path.relative_to(self.opp)}: {error}") from None
        return entries

    def value_depends(self) -> dict[str, frozenset[int]]:
        """The positions of the inputs whose values are part of the key, by operator type.

        Every chip's index is read. Raises ``ValueError`` if an index file is not JSON.
        """
        found: dict[str, frozenset[int]] = {}
        for path in self.index_files:
            for kind, listed in json.loads(path.read_bytes()).items():
                places = frozenset(listed.get("valueDependIndex", ()))
                found[kind] = found.get(kind, frozenset()) | places
        return found

    def kernel(self, entry: Mapping[str, Any]) -> Path:
        """The path of an index entry's object."""
        return self.ai_core / str(entry["binPath"])

    def problems(self, entry: Mapping[str, Any]) -> list[str]:
        """The reasons why the kernel of an index entry cannot be run; empty if it is valid."""
        path = self.kernel(entry)
        try:
            data = path.read_bytes()
            metadata = json.loads(path.with_suffix(".json").read_bytes())
            object_size(data)
        except (OSError, ValueError, RecursionError, ElfError) as error:
            return [f"{entry['binPath']} is not there and whole: {error}"]
        # Packages of the vendor carry no digest (facts section 2.5).
        if isinstance(metadata, dict) and metadata.get("sha256", sha256(data)) != sha256(data):
            return [f"{entry['binPath']} is not the object its metadata describes"]
        name = str(entry["binDesc"]["kernelName"])
        if name.partition("__kernel")[0].encode() not in data:
            return [f"{entry['binPath']} has no function {name}"]
        return []

    def put_object(self, entry: Mapping[str, Any], data: bytes, symbol: str) -> None:
        """Replace the kernel of an index entry by another one, with the digest corrected.

        ``symbol`` is the kernel's name in ``data``. Raises ``ValueError`` if ``data`` has no such
        symbol.
        """
        path = self.kernel(entry)
        changed = rename_symbol(data, symbol, str(entry["binDesc"]["kernelName"]))
        metadata = json.loads(path.with_suffix(".json").read_bytes())
        path.write_bytes(changed)
        path.with_suffix(".json").write_text(json.dumps({**metadata, "sha256": sha256(changed)}))
