"""The index files of installed packages, and how files there are put in their place."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Manifest, PackageError
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
    """Something stands where packages are kept that this installer leaves alone."""


class IndexPolicy:
    """Keeps every SoC's index that of the installed packages, ours and CANN's."""

    def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Make the index of every SoC that of these packages, in load order; whether any was
        another."""
        found = [self.parts(fs, ai_core / name) for name in names]
        config = ai_core / "config"
        known = set(self.directories(fs, config))
        written = [
            self.write_index(fs, config / soc, [parts[soc] for parts in found if soc in parts])
            for soc in sorted(known.union(*found))
        ]
        return any(written)

    def write_index(self, fs: Fs, directory: Path, indexes: Sequence[Index]) -> bool:
        """Make one SoC's index that of these packages, and of others that keep none themselves;
        whether it was another."""
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
        """What a package contributes to the index of each SoC. CANN's packages keep it in
        ``config/<soc>``, from where their own uninstaller takes it."""
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
        """The part of an index that belongs to packages which do not say themselves what they
        contribute, as far as their kernels are there."""
        try:
            index = {} if current is None else parse(current)
        except ValueError:
            return {}  # nobody can read it, so nobody misses it
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
        """A file's content, if there is one."""
        self.look(fs, path)
        try:
            return fs.read("install.index.read", path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def directories(self, fs: Fs, path: Path) -> list[str]:
        """Names of the directories in a directory, all of them to be seen from this node."""
        entries = fs.entries("install.list", path)
        for each in entries:
            if not os.path.lexists(each.path):
                fs.see("install.see", Path(each.path))
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]

    def look(self, fs: Fs, path: Path) -> None:
        """See a file though this node looked for it before another node made it."""
        if not os.path.lexists(path) and any(
            each.name == path.name for each in fs.entries("install.list", path.parent)
        ):
            fs.see("install.see", path)

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

    def publish(self, fs: Fs, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        """Put a file in its place so that readers see the old one or the new one, whole."""
        temporary = fs.temporary_path(path)
        fs.write_new(point, temporary, data, mode)
        fs.replace(f"{point}.rename", temporary, path)
        fs.sync_directory(f"{point}.sync", path.parent)

    def remove_leftovers(self, fs: Fs, directory: Path) -> None:
        """Remove what killed writers have left, and nothing of those that live elsewhere."""
        for entry in fs.entries("install.list", directory):
            if fs.is_abandoned(entry):
                self.delete(fs, Path(entry.path))

    def delete(self, fs: Fs, path: Path) -> None:
        """Remove a file, a link, or a directory with what it holds, as another process may, too."""
        if path.is_dir() and not path.is_symlink():
            for entry in fs.entries("uninstall.list", path):
                self.delete(fs, Path(entry.path))
            with contextlib.suppress(FileNotFoundError):
                fs.remove_directory("uninstall.rmdir", path)
        else:
            fs.remove("uninstall.remove", path)
