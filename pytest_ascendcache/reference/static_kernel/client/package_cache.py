"""Reusing packages of earlier processes: the later tree's ``static_kernel_cache``.

A package is recorded after its installation. It is reused for the same operators, chip and
compiler, if it still has the recorded digest. Source: facts ``static-kernel`` section 6.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.static_kernel.client.dump import digest

DIRECTORY = "static_kernel_cache"
_FILE = "packages.json"


class PackageCachePolicy:
    """Decides when a package is reused. ``root`` is the directory of all output."""

    def key(self, operators: Iterable[str], soc: str, compiler: str) -> str:
        """A digest of what decides a package; ``operators`` are digests of their information."""
        return digest(json.dumps([sorted(operators), soc, compiler]).encode())

    def find(self, fs: Fs, root: Path, key: str) -> Path | None:
        """An earlier process's package for the key, or ``None`` if it is missing or damaged."""
        record = self.recorded(fs, root).get(key, {})
        try:
            package = Path(record["package"])
            data = fs.read("packages.read", package)
            return package if self.matches(data, record["sha256"]) else None
        except (OSError, KeyError, TypeError):
            return None

    def matches(self, data: bytes, recorded: object) -> bool:
        """Whether a package has the recorded digest."""
        return hashlib.sha256(data).hexdigest() == recorded

    def recorded(self, fs: Fs, root: Path) -> dict[str, dict[str, str]]:
        """All records by key; empty if they cannot be read."""
        try:
            content = json.loads(fs.read("packages.index", root / DIRECTORY / _FILE))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def record(self, fs: Fs, root: Path, key: str, package: Path) -> None:
        """Record a package. If that fails, the next process compiles."""
        path = root / DIRECTORY / _FILE
        try:
            fs.make_directories("packages.mkdir", path.parent)
            entry = {"package": str(package), "sha256": digest(package.read_bytes())}
            with fs.lock("packages.lock", path.with_suffix(".lock")):
                content = {**self.recorded(fs, root), key: entry}
                fs.write_whole("packages", path, json.dumps(content, indent=1).encode())
        except (OSError, LockUnavailable):
            return
