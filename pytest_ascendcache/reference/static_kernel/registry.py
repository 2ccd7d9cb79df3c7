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

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Package
from pytest_ascendcache.reference.static_kernel.index_file import IndexPolicy, RegistryError

AI_CORE = Path("static_kernel/ai_core")
LOCK_NAME = ".static_kernel.lock"
PATIENCE = 120.0
"""Seconds an installer waits for others that install."""

_PRIORITY = "load_priority="


class RegistryPolicy(IndexPolicy):
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
            self.refuse_foreign(ai_core / package.manifest.name)
            try:
                self.replace(fs, ai_core, package, names)
            except BaseException:
                with contextlib.suppress(OSError):
                    self.give_up(fs, ai_core, package.manifest.name, names)
                raise
            return True

    def replace(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> None:
        """Install a package that is not installed as it should be, or another of its name is."""
        name = package.manifest.name
        staged = self.stage(fs, ai_core, package)
        others = [each for each in names if each != name]
        self.put_in_place(fs, ai_core, staged, name, others)

    def put_in_place(
        self, fs: Fs, ai_core: Path, staged: Path, name: str, others: Sequence[str]
    ) -> None:
        """Install a staged package in place of what has its name, if anything does."""
        if (ai_core / name).is_dir():
            self.remove(fs, ai_core, name, others)
        fs.replace("install.rename", staged, ai_core / name)
        self.write_order(fs, ai_core, [*others, name])
        self.write_indexes(fs, ai_core, [*others, name])

    def give_up(self, fs: Fs, ai_core: Path, name: str, names: Sequence[str]) -> None:
        """After a failed install: nothing of it stays; what it replaces does if untouched."""
        if self.order(fs, ai_core) != list(names):
            self.write_order(fs, ai_core, [each for each in names if each != name])
        self.repair(fs, ai_core)

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

    def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> None:
        """Set what is installed."""
        path = ai_core / "config.ini"
        if list(names) == self.order(fs, ai_core):
            return
        if names:
            self.publish(fs, "install.config", path, f"{_PRIORITY}{','.join(names)}\n".encode())
        else:
            fs.remove("install.config.remove", path)

    # Getting rid of things.

    def discard(self, fs: Fs, directory: Path) -> None:
        """Remove a package's directory: its name at once, then what it holds."""
        hidden = fs.temporary_path(directory)
        fs.replace("uninstall.rename", directory, hidden)
        fs.sync_directory("uninstall.sync", directory.parent)
        self.delete(fs, hidden)

    def sweep(self, fs: Fs, opp: Path) -> None:
        """Remove directories that are empty."""
        config = opp / AI_CORE / "config"
        socs = [Path(entry.path) for entry in fs.entries("install.list", config)]
        for path in (*socs, config, opp / AI_CORE, opp / "static_kernel"):
            with contextlib.suppress(OSError):  # not empty, or not there
                if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                    fs.remove_directory("install.sweep", path)
