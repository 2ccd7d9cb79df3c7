"""Purging: what force removes, and what a changed toolchain makes void.

Source: document C, parameter values (force); rule robust/upgrade-stamp.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_ascendcache.reference.cache.entry import LOCK_NAME
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable


class PurgePolicy:
    """Removes entries of whole SoCs. Links go, their targets stay; locks stay."""

    def force(self, fs: Fs, soc_directory: Path) -> bool:
        """Remove everything one SoC has; whether nothing of it is left.

        Held under the writers' lock: an entry is purged whole or not at all.
        """
        try:
            with fs.lock("purge.lock", soc_directory / LOCK_NAME):
                self.empty(fs, soc_directory)
                fs.sync_directory("purge.sync", soc_directory)
        except (OSError, LockUnavailable):
            return False
        return True

    def empty(self, fs: Fs, directory: Path) -> None:
        """Remove what a SoC's directory holds, but for its lock; metadata before objects."""
        entries = fs.entries("purge.list", directory)
        for entry in sorted(entries, key=lambda each: not each.name.endswith(".json")):
            if entry.name != LOCK_NAME:
                self.remove(fs, entry)

    def remove(self, fs: Fs, entry: os.DirEntry[str]) -> None:
        """Remove one thing found in a purged directory, whatever it is."""
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            for below in fs.entries("purge.list", path):
                self.remove(fs, below)
            fs.remove_directory("purge.rmdir", path)
        else:
            fs.remove("purge.remove", path)

    def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
        """Make entries of another toolchain void, for every SoC; whether the cache is current.

        The stamp is written when the purge is complete, so that a purge that was cut short is
        taken up again by the next process.
        """
        stamp_path = kernel_cache / "version.info"
        if self.stamp(fs, stamp_path) == stamp:
            return True
        try:
            with fs.lock("upgrade.lock", kernel_cache / LOCK_NAME):
                if self.stamp(fs, stamp_path) == stamp:
                    return True
                for entry in fs.entries("upgrade.list", kernel_cache):
                    if entry.is_dir(follow_symlinks=False) and not self.force(fs, Path(entry.path)):
                        return False
                temporary = fs.write_temporary("upgrade.stamp", stamp_path, stamp.encode())
                fs.replace("upgrade.stamp.rename", temporary, stamp_path)
                fs.sync_directory("upgrade.sync", kernel_cache)
        except (OSError, LockUnavailable):
            return False
        return True

    def stamp(self, fs: Fs, path: Path) -> str | None:
        """The toolchain the cache was last purged for."""
        try:
            return fs.read("upgrade.read", path).decode(errors="replace")
        except OSError:
            return None
