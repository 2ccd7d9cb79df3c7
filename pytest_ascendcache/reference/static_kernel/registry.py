"""Installed packages: ``static_kernel/ai_core`` below an operator package.

====================================  =========================================================
``<package>/``                        kernels, ``package.json``, ``uninstall.sh``
``config.ini``                        ``load_priority=a,b``: what is installed, in load order
``config/<soc>/binary_info_config``   ``.json``: the index every process reads
``config/<soc>/foreign_index.json``   the index as others left it, where there was one
====================================  =========================================================

``config.ini`` decides what is installed, the rest follows from it. A package's files are complete
before ``config.ini`` names it, and stay until the index no longer does; so the index never names
a kernel that is not there, wherever a process is killed, and :meth:`RegistryPolicy.repair` can
finish what was cut short. All of it happens under a lock that ends with its holder.
Source: facts ``static-kernel`` sections 3.2 and 3.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import (
    MANIFEST,
    Manifest,
    Package,
    PackageError,
)
from pytest_ascendcache.reference.static_kernel.index import (
    INDEX_NAME,
    entries_by_key,
    merged,
    of_entries,
    package_of,
    parse,
    render,
)

AI_CORE = Path("static_kernel/ai_core")
LOCK_NAME = ".static_kernel.lock"
FOREIGN_NAME = "foreign_index.json"
PATIENCE = 120.0
"""Seconds an installer waits for others that install."""

_PRIORITY = "load_priority="
_LEFTOVER = ".temp"


class RegistryError(Exception):
    """Something stands where packages are kept that this installer leaves alone."""


class RegistryPolicy:
    """Installs and removes packages. ``opp`` is the operator package's directory."""

    def install(self, fs: Fs, opp: Path, package: Package) -> bool:
        """Install a package, in place of one of the same name; whether anything had to be done.

        Raises:
            OSError: where it cannot be; then nothing of it is installed.
            RegistryError: where something that is no package has its name.
        """
        with self.locked(fs, opp):
            ai_core = self.directory(opp)
            names = self.repair(fs, ai_core)
            if self.is_installed(fs, ai_core, package, names):
                return False
            try:
                self.replace(fs, ai_core, package, names)
            except BaseException:
                with contextlib.suppress(OSError):
                    others = [name for name in names if name != package.manifest.name]
                    self.write_order(fs, ai_core, others)
                    self.repair(fs, ai_core)
                raise
            return True

    def replace(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> None:
        """Install a package that is not installed as it should be."""
        name = package.manifest.name
        others = [each for each in names if each != name]
        self.refuse_foreign(ai_core / name)
        if name in names:
            self.remove(fs, ai_core, name, others)
        staged = self.stage(fs, ai_core, package)
        fs.replace("install.rename", staged, ai_core / name)
        fs.sync_directory("install.sync", ai_core)
        self.write_order(fs, ai_core, [*others, name])
        self.write_indexes(fs, ai_core, [*others, name])

    def uninstall(self, fs: Fs, opp: Path, name: str) -> bool:
        """Remove the package of exactly this name; whether it was installed.

        Raises:
            OSError: where it cannot be.
        """
        with self.locked(fs, opp):
            ai_core = self.directory(opp)
            names = self.repair(fs, ai_core)
            if name not in names:
                return False
            self.refuse_foreign(ai_core / name)
            self.remove(fs, ai_core, name, [each for each in names if each != name])
            return True

    def refuse_foreign(self, directory: Path) -> None:
        """Leave alone what another installer, or a person, has put there.

        Raises:
            RegistryError: where there is such a thing.
        """
        if (directory.exists() or directory.is_symlink()) and not self.is_ours(directory):
            raise RegistryError(f"[{directory}] is in the way: this installer did not make it")

    def remove(self, fs: Fs, ai_core: Path, name: str, others: Sequence[str]) -> None:
        """Take a package out of the list, then out of the index, then away."""
        self.write_order(fs, ai_core, others)
        self.write_indexes(fs, ai_core, others)
        self.discard(fs, ai_core / name)

    @contextlib.contextmanager
    def locked(self, fs: Fs, opp: Path) -> Iterator[None]:
        """Alone with the packages. Nothing that is empty is left, nor the lock itself."""
        with fs.lock("install.lock", opp / LOCK_NAME, PATIENCE):
            try:
                yield
            finally:
                self.sweep(fs, opp)
                with contextlib.suppress(OSError):
                    fs.remove("install.unlock", opp / LOCK_NAME)

    def directory(self, opp: Path) -> Path:
        """Where packages are.

        Raises:
            RegistryError: where a link stands in the way.
        """
        for path in (opp / "static_kernel", opp / AI_CORE, opp / AI_CORE / "config"):
            if path.is_symlink():
                raise RegistryError(f"[{path}] is a link; put a directory there")
        return opp / AI_CORE

    # What is installed.

    def order(self, fs: Fs, ai_core: Path) -> list[str]:
        """Names of the packages in load order, as ``config.ini`` has them."""
        try:
            lines = fs.read("install.order", ai_core / "config.ini").decode().splitlines()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return []
        listed = [line[len(_PRIORITY) :] for line in lines if line.startswith(_PRIORITY)]
        return [name for line in listed for name in line.split(",") if name]

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

    def is_installed(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> bool:
        """Whether this very package is installed, every byte of it."""
        directory = ai_core / package.manifest.name
        if package.manifest.name not in names:
            return False
        if self.manifest(fs, directory) != package.manifest:
            return False
        try:
            return all(
                fs.read("install.compare", directory / path) == data
                for path, data in package.files.items()
            )
        except OSError:
            return False

    # Changing it.

    def repair(self, fs: Fs, ai_core: Path) -> list[str]:
        """Finish what was cut short; the names of the installed packages in load order."""
        self.remove_leftovers(fs, ai_core)
        listed = self.order(fs, ai_core)
        names = [name for name in listed if (ai_core / name).is_dir()]
        self.write_order(fs, ai_core, names)
        self.write_indexes(fs, ai_core, names)
        for entry in fs.entries("install.list", ai_core):
            if entry.name not in names and self.is_ours(Path(entry.path)):
                self.discard(fs, Path(entry.path))
        return names

    def remove_leftovers(self, fs: Fs, directory: Path) -> None:
        """Remove what somebody did not come to rename; under the lock nobody will."""
        for entry in fs.entries("install.list", directory):
            if entry.name.startswith(".") and entry.name.endswith(_LEFTOVER):
                self.delete(fs, Path(entry.path))

    def stage(self, fs: Fs, ai_core: Path, package: Package) -> Path:
        """A copy of the package beside its place, every byte of it on the disk."""
        staged = fs.temporary_path(ai_core / package.manifest.name)
        directories = {staged, *((staged / path).parent for path in package.files)}
        for directory in sorted(directories):
            self.make_directories(fs, directory)
        files = {**package.files, MANIFEST: package.manifest.to_bytes()}
        for path, data in files.items():
            mode = 0o750 if path.endswith(".sh") else None
            fs.write_new("install.file", staged / path, data, mode)
        for directory in sorted({*directories, *(each.parent for each in directories)}):
            if directory != ai_core:
                fs.sync_directory("install.sync", directory)
        return staged

    def make_directories(self, fs: Fs, path: Path) -> None:
        """Create a directory and its parents so that they stay after a power loss."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        fs.make_directories("install.mkdir", path)
        for each in reversed(missing):
            fs.sync_directory("install.sync", each.parent)

    def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> None:
        """Set what is installed."""
        path = ai_core / "config.ini"
        if list(names) == self.order(fs, ai_core):
            return
        if names:
            self.publish(fs, "install.config", path, f"{_PRIORITY}{','.join(names)}\n".encode())
        else:
            fs.remove("install.config.remove", path)
            fs.sync_directory("install.sync", ai_core)

    def publish(self, fs: Fs, point: str, path: Path, data: bytes) -> None:
        """Put a file in its place so that readers see the old one or the new one, whole."""
        temporary = fs.write_temporary(point, path, data)
        fs.replace(f"{point}.rename", temporary, path)
        fs.sync_directory(f"{point}.sync", path.parent)

    # The index.

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
        """Make one SoC's index that of these packages and of whoever else wrote to it."""
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
        ours = {name: self.is_ours(ai_core / name) for name in map(package_of, entries.values())}
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

    # Getting rid of things.

    def discard(self, fs: Fs, directory: Path) -> None:
        """Remove a package's directory: its name at once, then what it holds."""
        hidden = fs.temporary_path(directory)
        fs.replace("uninstall.rename", directory, hidden)
        fs.sync_directory("uninstall.sync", directory.parent)
        self.delete(fs, hidden)

    def delete(self, fs: Fs, path: Path) -> None:
        """Remove a file, a link, or a directory with what it holds."""
        if path.is_dir() and not path.is_symlink():
            for entry in fs.entries("uninstall.list", path):
                self.delete(fs, Path(entry.path))
            fs.remove_directory("uninstall.rmdir", path)
        else:
            fs.remove("uninstall.remove", path)

    def sweep(self, fs: Fs, opp: Path) -> None:
        """Remove directories that are empty."""
        config = opp / AI_CORE / "config"
        socs = [Path(entry.path) for entry in fs.entries("install.list", config)]
        for path in (*socs, config, opp / AI_CORE, opp / "static_kernel"):
            with contextlib.suppress(OSError):  # not empty, or not there
                if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                    fs.remove_directory("install.sweep", path)
