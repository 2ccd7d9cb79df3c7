"""The index files of installed packages, and how files there are put in their place."""

from __future__ import annotations

import contextlib
import re
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

_LEFTOVER = re.compile(r"\..+\.\d+\.[0-9a-f]{16}\.temp")
"""What :meth:`Fs.temporary_path` makes."""


class RegistryError(Exception):
    """Something stands where packages are kept that this installer leaves alone."""


class IndexPolicy:
    """Keeps every SoC's index that of the installed packages, ours and CANN's."""

    def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> None:
        """Make the index of every SoC that of these packages, in load order."""
        found = [self.parts(fs, ai_core / name) for name in names]
        config = ai_core / "config"
        entries = fs.entries("install.list", config)
        known = {each.name for each in entries if each.is_dir(follow_symlinks=False)}
        for directory in sorted(known.union(*found)):
            indexes = [parts[directory] for parts in found if directory in parts]
            self.write_index(fs, config / directory, indexes)

    def write_index(self, fs: Fs, directory: Path, indexes: Sequence[Index]) -> None:
        """Make one SoC's index that of these packages, and of others that keep none themselves."""
        if directory.is_symlink():
            raise RegistryError(f"[{directory}] is a link; put a directory there")
        self.remove_leftovers(fs, directory)
        path = directory / INDEX_NAME
        current = self.content(fs, path)
        others = self.others(fs, directory.parent.parent, current)
        wanted = render(merged([others, *indexes])) if others or indexes else None
        if wanted is None and current is not None:
            fs.remove("install.index.remove", path)
            fs.sync_directory("install.index.sync", directory)
        elif wanted is not None and wanted != current:
            self.make_directories(fs, directory)
            self.publish(fs, "install.index", path, wanted)

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

    def publish(self, fs: Fs, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        """Put a file in its place so that readers see the old one or the new one, whole."""
        temporary = fs.temporary_path(path)
        fs.write_new(point, temporary, data, mode)
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
