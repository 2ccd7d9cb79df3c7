"""The index files of installed packages, and the file operations of the installer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import (
    MANIFEST,
    PackageError,
    PackageManifest,
)
from pytest_ascendcache.reference.static_kernel.index import (
    INDEX_NAME,
    Index,
    entries_by_key,
    merged,
    of_entries,
    package_of,
    parse,
    render,
)


class RegistryError(Exception):
    """Something that this installer must not change is in the way."""


class IndexPolicy:
    """Keeps every SoC's index in line with the installed packages, ours and CANN's."""

    def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Write the index of every SoC for these packages, in load order.

        Returns whether any index changed.
        """
        found = [self.parts(fs, ai_core / name) for name in names]
        config = ai_core / "config"
        known = set(self.directories(fs, config))
        written = [
            self.write_index(fs, config / soc, [parts[soc] for parts in found if soc in parts])
            for soc in sorted(known.union(*found))
        ]
        return any(written)

    def write_index(self, fs: Fs, directory: Path, indexes: Sequence[Index]) -> bool:
        """Write one SoC's index. Returns whether it changed.

        It keeps the entries of packages that have no index of their own (:meth:`others`). The
        file is removed once no package contributes to it.
        """
        if directory.is_symlink():
            raise RegistryError(f"[{directory}] is a link; put a directory there")
        path = directory / INDEX_NAME
        current = self.content(fs, path)
        others = self.others(fs, directory.parent.parent, current)
        wanted = render(merged([others, *indexes])) if others or indexes else None
        if wanted == current:
            return False
        if wanted is None:
            fs.remove("install.index.remove", path)
            fs.sync_directory("install.index.sync", directory)
        else:
            self.make_directories(fs, directory)
            self.publish(fs, "install.index", path, wanted)
        return True

    def parts(self, fs: Fs, directory: Path) -> dict[str, Index]:
        """A package's part of the index, by SoC.

        CANN's packages keep theirs in ``config/<soc>``, where their own uninstaller reads it.
        """
        manifest = self.manifest(fs, directory)
        if manifest is not None:
            return {manifest.directory: manifest.index}
        found: dict[str, Index] = {}
        for entry in (
            [] if self.is_ours(directory) else fs.entries("install.list", directory / "config")
        ):
            with contextlib.suppress(ValueError):
                content = self.content(fs, Path(entry.path) / INDEX_NAME)
                if content is not None:
                    found[entry.name] = parse(content)
        return found

    def others(self, fs: Fs, ai_core: Path, current: bytes | None) -> Index:
        """The current entries of packages that have no index of their own, if the kernel exists."""
        try:
            index = {} if current is None else parse(current)
        except ValueError:
            return {}  # no reader can use a damaged index, so nothing is lost
        entries = entries_by_key(index)
        silent = {
            name
            for name in map(package_of, entries.values())
            if not self.is_ours(ai_core / name) and not self.parts(fs, ai_core / name)
        }
        kept = {
            key: each
            for key, each in entries.items()
            if package_of(each) in silent and (ai_core / each["binPath"]).is_file()
        }
        return of_entries(index, kept)

    def content(self, fs: Fs, path: Path) -> bytes | None:
        """The content of a file, or ``None`` if it does not exist."""
        self.look(fs, path)
        try:
            return fs.read("install.index.read", path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def directories(self, fs: Fs, path: Path) -> list[str]:
        """The names of a directory's subdirectories, including those other nodes just created."""
        entries = fs.entries("install.list", path)
        for each in entries:
            if not os.path.lexists(each.path):
                fs.see("install.see", Path(each.path))
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]

    def look(self, fs: Fs, path: Path) -> None:
        """Refresh a stale negative lookup of a path that another node has created."""
        if not os.path.lexists(path) and any(
            each.name == path.name for each in fs.entries("install.list", path.parent)
        ):
            fs.see("install.see", path)

    def is_ours(self, directory: Path) -> bool:
        """Whether a directory is a package of this installer, complete or not."""
        return not directory.is_symlink() and (directory / MANIFEST).is_file()

    def manifest(self, fs: Fs, directory: Path) -> PackageManifest | None:
        """The manifest of an installed package of ours, or ``None`` if it cannot be read."""
        if not self.is_ours(directory):
            return None
        try:
            manifest = PackageManifest.parse(fs.read("install.manifest", directory / MANIFEST))
        except (OSError, PackageError):
            return None
        return manifest if manifest.name == directory.name else None

    # Files and directories.

    def make_directories(self, fs: Fs, path: Path) -> None:
        """Create a directory and its parents, and sync them so that they survive a power loss."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        fs.make_directories("install.mkdir", path)
        for each in reversed(missing):
            fs.sync_directory("install.sync", each.parent)

    def publish(self, fs: Fs, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        """Write a file atomically: readers see the complete old file or the complete new one."""
        temporary = fs.temporary_path(path)
        fs.write_new(point, temporary, data, mode)
        fs.replace(f"{point}.rename", temporary, path)
        fs.sync_directory(f"{point}.sync", path.parent)

    def remove_leftovers(self, fs: Fs, directory: Path) -> None:
        """Remove the temporary files of dead writers, but not those of live ones on any node."""
        for entry in fs.entries("install.list", directory):
            if fs.is_abandoned(entry):
                self.delete(fs, Path(entry.path))

    def delete(self, fs: Fs, path: Path) -> None:
        """Remove a file, a link, or a directory tree. Another process may be removing it too."""
        if path.is_dir() and not path.is_symlink():
            for entry in fs.entries("uninstall.list", path):
                self.delete(fs, Path(entry.path))
            with contextlib.suppress(FileNotFoundError):
                fs.remove_directory("uninstall.rmdir", path)
        else:
            fs.remove("uninstall.remove", path)
