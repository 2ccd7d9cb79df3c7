"""Purging: what ``force`` removes, and what an upgrade of the toolchain invalidates.

Source: document C, parameter values (force); rule robust/upgrade-stamp.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_ascendcache.reference.cache.entry import LOCK_NAME
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable


class PurgePolicy:
    """Removes all entries of a SoC. Links are removed, their targets and lock files are not."""

    def force(self, fs: Fs, soc_directory: Path) -> bool:
        """Remove all entries of one SoC. Returns whether that succeeded.

        It holds the writers' lock, so no writer publishes an entry meanwhile.
        """
        try:
            with fs.lock("purge.lock", soc_directory / LOCK_NAME):
                self.empty(fs, soc_directory)
                fs.sync_directory("purge.sync", soc_directory)
        except (OSError, LockUnavailable):
            return False
        return True

    def empty(self, fs: Fs, directory: Path) -> None:
        """Remove everything in a SoC's directory except its lock; metadata before objects."""
        entries = fs.entries("purge.list", directory)
        for entry in sorted(entries, key=lambda each: not each.name.endswith(".json")):
            if entry.name != LOCK_NAME:
                self.remove(fs, entry)

    def remove(self, fs: Fs, entry: os.DirEntry[str]) -> None:
        """Remove a file, a link, or a directory with its content."""
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            for below in fs.entries("purge.list", path):
                self.remove(fs, below)
            fs.remove_directory("purge.rmdir", path)
        else:
            fs.remove("purge.remove", path)

    def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
        """Remove all SoCs' entries if another version of the toolchain made them.

        Returns whether the cache is valid for this version. The stamp is written after the purge
        is complete, so the next process resumes an interrupted purge.
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
                fs.write_whole("upgrade.stamp", stamp_path, stamp.encode())
                fs.sync_directory("upgrade.sync", kernel_cache)
        except (OSError, LockUnavailable):
            return False
        return True

    def stamp(self, fs: Fs, path: Path) -> str | None:
        """The stamp of the toolchain version that last purged the cache, or ``None``."""
        try:
            return fs.read("upgrade.read", path).decode(errors="replace")
        except OSError:
            return None
