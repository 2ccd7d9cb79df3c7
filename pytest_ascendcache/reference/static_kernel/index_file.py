"""The index files of installed packages, and how files there are put in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Manifest, PackageError
from pytest_ascendcache.reference.static_kernel.index import (
    INDEX_NAME,
    entries_by_key,
    merged,
    of_entries,
    package_of,
    parse,
    render,
)

FOREIGN_NAME = "foreign_index.json"
_LEFTOVER = re.compile(r"\..+\.\d+\.[0-9a-f]{16}\.temp")
"""What :meth:`Fs.temporary_path` makes."""


class RegistryError(Exception):
    """Something stands where packages are kept that this installer leaves alone."""


class IndexPolicy:
    """Keeps every SoC's index in step with the installed packages, and keeps foreign entries."""

    def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> None:
        """Make the index of every SoC that of these packages."""
        found = [self.manifest(fs, ai_core / name) for name in names]
        manifests = [each for each in found if each is not None]
        config = ai_core / "config"
        entries = fs.entries("install.list", config)
        known = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
        for directory in sorted(known | {each.directory for each in manifests}):
            indexes = [each.index for each in manifests if each.directory == directory]
            self.write_index(fs, config / directory, indexes)

    def write_index(self, fs: Fs, directory: Path, indexes: Sequence[dict[str, Any]]) -> None:
        """Make one SoC's index from these packages and the foreign entries in it."""
        if directory.is_symlink():
            raise RegistryError(f"[{directory}] is a link; put a directory there")
        self.remove_leftovers(fs, directory)
        path, saved = directory / INDEX_NAME, directory / FOREIGN_NAME
        current, kept = self.content(fs, path), self.content(fs, saved)
        foreign = wanted = self.foreign(directory.parent.parent, current, kept)
        if indexes:
            theirs = [] if foreign is None else [parse(foreign)]
            wanted = render(merged([*theirs, *indexes]))
            if foreign is not None and foreign != kept:
                self.publish(fs, "install.foreign", saved, foreign)
        if wanted is None and current is not None:
            fs.remove("install.index.remove", path)
            fs.sync_directory("install.index.sync", directory)
        elif wanted is not None and wanted != current:
            self.make_directories(fs, directory)
            self.publish(fs, "install.index", path, wanted)
        if kept is not None and not (indexes and foreign):
            fs.remove("install.foreign.remove", saved)

    def foreign(self, ai_core: Path, current: bytes | None, kept: bytes | None) -> bytes | None:
        """What others have in an index: theirs that are in it, and theirs that ours override.

        ``kept`` is what they had before; it is returned as it is where nothing has changed.
        """
        try:
            index = {} if current is None else parse(current)
            before = {} if kept is None else parse(kept)
        except ValueError:
            return kept  # nobody can read it, so nobody misses it
        entries = entries_by_key(index)
        packages = {package_of(each) for each in entries.values()}
        ours = {name: self.is_ours(ai_core / name) for name in packages}
        theirs = {key: each for key, each in entries.items() if not ours[package_of(each)]}
        overridden = {
            key: each
            for key, each in entries_by_key(before).items()
            if key in entries and key not in theirs and (ai_core / each["binPath"]).is_file()
        }
        if kept is not None and {**overridden, **theirs} == entries_by_key(before):
            return kept
        if len(theirs) == len(entries):
            return current if theirs else None
        if not overridden and not theirs:
            return None
        return render(merged([of_entries(before, overridden), of_entries(index, theirs)]))

    def content(self, fs: Fs, path: Path) -> bytes | None:
        """A file's content, if there is one."""
        try:
            return fs.read("install.index.read", path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_ours(self, directory: Path) -> bool:
        """Whether a directory is a package, whole or not, of this installer."""
        return not directory.is_symlink() and (directory / MANIFEST).is_file()

    def manifest(self, fs: Fs, directory: Path) -> Manifest | None:
        """What an installed package says of itself, if it can be read."""
        if not self.is_ours(directory):
            return None
        try:
            manifest = Manifest.parse(fs.read("install.manifest", directory / MANIFEST))
        except (OSError, PackageError):
            return None
        return manifest if manifest.name == directory.name else None

    # Files and directories.

    def make_directories(self, fs: Fs, path: Path) -> None:
        """Create a directory and its parents so that they stay after a power loss."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        fs.make_directories("install.mkdir", path)
        for each in reversed(missing):
            fs.sync_directory("install.sync", each.parent)

    def publish(self, fs: Fs, point: str, path: Path, data: bytes) -> None:
        """Put a file in its place so that readers see the old one or the new one, whole."""
        temporary = fs.write_temporary(point, path, data)
        fs.replace(f"{point}.rename", temporary, path)
        fs.sync_directory(f"{point}.sync", path.parent)

    def remove_leftovers(self, fs: Fs, directory: Path) -> None:
        """Remove temporary files of killed writers; under the lock there are no others."""
        for entry in fs.entries("install.list", directory):
            if _LEFTOVER.fullmatch(entry.name):
                self.delete(fs, Path(entry.path))

    def delete(self, fs: Fs, path: Path) -> None:
        """Remove a file, a link, or a directory with what it holds."""
        if path.is_dir() and not path.is_symlink():
            for entry in fs.entries("uninstall.list", path):
                self.delete(fs, Path(entry.path))
            fs.remove_directory("uninstall.rmdir", path)
        else:
            fs.remove("uninstall.remove", path)
