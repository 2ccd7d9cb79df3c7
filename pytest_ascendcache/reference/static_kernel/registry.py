"""Installed packages: ``static_kernel/ai_core`` below an operator package.

====================================  =========================================================
``<package>/``                        kernels, ``package.json``, ``uninstall.sh``, ``leases/``
``config.ini``                        ``load_priority=a,b``: what is installed, in load order
``config/<soc>/binary_info_config``   ``.json``: the index every process reads
====================================  =========================================================

A package is installed once a single rename has given its complete directory its name. List and
index are derived from the directories: a process that changes any directory rewrites both, and
looks again until they match the directories. So the last of two nodes to write sees the changes of
both, and the next process completes what a killed one left undone. A package enters the index last
and leaves it first. A lock makes processes take turns where locks work, so that no process reads an
outdated index; nothing else depends on it. On its own node, the installer waits for CANN's
installers. Source: facts ``static-kernel`` sections 3.2 and 3.3.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.static_kernel.archive import EXECUTABLES, MANIFEST, Package
from pytest_ascendcache.reference.static_kernel.index_file import RegistryError
from pytest_ascendcache.reference.static_kernel.installed import ATTEMPTS, InstalledPolicy
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.neighbours import kept_out

AI_CORE = Path("static_kernel/ai_core")
LOCK_NAME = ".static_kernel.lock"
PATIENCE = 120.0
"""Seconds that an installer waits for other installers."""
_OVERTAKEN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ESTALE)
"""The errors of an operation whose path another node has changed in the meantime."""

Done = TypeVar("Done")


class RegistryPolicy(InstalledPolicy):
    """Installs and removes packages. ``opp`` is the operator package's directory."""

    def install(self, fs: Fs, opp: Path, package: Package, holder: Holder | None = None) -> bool:
        """Install a package, replacing one of the same name. Returns False if it was installed.

        ``holder`` is the process it is installed for, in addition to its present holders. Raises
        ``OSError`` if the installation fails; then nothing of the package is installed, and
        ``RegistryError`` if something that is not one of our packages has its name.
        """
        return self.attempted(fs, opp, lambda ai_core: self.put(fs, ai_core, package, holder))

    def put(self, fs: Fs, ai_core: Path, package: Package, holder: Holder | None) -> bool:
        """One attempt of :meth:`install`. Returns False if the package is already installed."""
        place = ai_core / package.manifest.name
        names = self.settle(fs, ai_core)
        holders = {*self.holders(fs, place), *([holder] if holder else [])}
        if self.is_installed(fs, ai_core, package, names):
            self.hold(fs, place, holders)
            return False
        self.refuse_foreign(place)
        staged = self.stage(fs, ai_core, package, holders)
        try:
            self.put_in_place(fs, ai_core, staged, place.name)
            self.settle(fs, ai_core)
        except BaseException:
            with contextlib.suppress(OSError):
                self.give_up(fs, ai_core, staged, place.name, holder)
            raise
        return True

    def put_in_place(self, fs: Fs, ai_core: Path, staged: Path, name: str) -> None:
        """Give a staged package its name, and remove the package that had that name before."""
        if (ai_core / name).is_dir():
            self.remove(fs, ai_core, name, force=True)  # the staged one has its holders' leases
        fs.replace("install.rename", staged, ai_core / name)
        fs.sync_directory("install.sync", ai_core)

    def give_up(
        self, fs: Fs, ai_core: Path, staged: Path, name: str, holder: Holder | None
    ) -> None:
        """Undo a failed install. The package it was to replace stays if it is still in place."""
        if staged.exists():
            self.delete(fs, staged)
        else:
            self.remove(fs, ai_core, name, holder)
        self.settle(fs, ai_core)

    def uninstall(
        self, fs: Fs, opp: Path, name: str, holder: Holder | None = None, force: bool = False
    ) -> tuple[bool, frozenset[Holder]]:
        """Remove the package of exactly this name, unless others than ``holder`` hold it.

        Returns whether it was installed, and the other holders, for whom it stays installed.
        ``force`` removes it although it has other holders. Raises ``OSError`` if it cannot be
        removed.
        """

        def attempt(ai_core: Path) -> tuple[bool, frozenset[Holder]]:
            if name not in self.settle(fs, ai_core):
                return False, frozenset()
            self.refuse_foreign(ai_core / name)
            left = self.holders(fs, ai_core / name) - {holder}
            if left and not force:
                self.hold(fs, ai_core / name, left, holder)
            else:
                left = self.remove(fs, ai_core, name, holder, force)
                self.settle(fs, ai_core)
            return True, left

        return self.attempted(fs, opp, attempt)

    def uninstall_all(self, fs: Fs, opp: Path) -> list[str]:
        """Remove every package, even if other processes hold it. Returns the removed names."""

        def attempt(ai_core: Path) -> list[str]:
            names = self.settle(fs, ai_core)
            self.write(fs, ai_core, [])
            for name in names:
                self.delete(fs, self.hide(fs, ai_core / name))
            self.settle(fs, ai_core)
            return names

        return self.attempted(fs, opp, attempt)

    def attempted(self, fs: Fs, opp: Path, attempt: Callable[[Path], Done]) -> Done:
        """Run ``attempt`` in a turn, and repeat it if another node has changed the files meanwhile.

        Raises ``OSError`` for any other reason, or if other nodes keep changing the files.
        """
        with self.turn(fs, opp) as ai_core:
            self.clean(fs, ai_core)
            for _ in range(ATTEMPTS):
                try:
                    return attempt(ai_core)
                except OSError as error:
                    if error.errno not in _OVERTAKEN:
                        raise
            return attempt(ai_core)

    def refuse_foreign(self, directory: Path) -> None:
        """Refuse to touch what another installer or a user has put there.

        Raises ``RegistryError`` if the path exists and is not one of our packages.
        """
        if (directory.exists() or directory.is_symlink()) and not self.is_ours(directory):
            raise RegistryError(f"[{directory}] is in the way: this installer did not make it")

    def remove(
        self,
        fs: Fs,
        ai_core: Path,
        name: str,
        leaver: Holder | None = None,
        force: bool = False,
    ) -> frozenset[Holder]:
        """Remove a package from list and index, then its directory.

        Returns the processes other than ``leaver`` that have come to hold it in the meantime; for
        them the package is put back. With ``force`` holders do not matter.
        """
        self.write(fs, ai_core, [each for each in self.names(fs, ai_core) if each != name])
        hidden = self.hide(fs, ai_core / name)
        left = frozenset() if force else self.holders(fs, hidden) - {leaver}
        if left:
            try:
                fs.replace("uninstall.back", hidden, ai_core / name)
                return left
            except OSError as error:
                if error.errno not in _OVERTAKEN:
                    raise
                self.hold(fs, ai_core / name, left)  # another process has installed it again
        self.delete(fs, hidden)
        return left

    def hide(self, fs: Fs, directory: Path) -> Path:
        """Rename a package's directory to a temporary name. Returns the new path."""
        hidden = fs.temporary_path(directory)
        fs.replace("uninstall.rename", directory, hidden)
        fs.sync_directory("uninstall.sync", directory.parent)
        return hidden

    @contextlib.contextmanager
    def turn(self, fs: Fs, opp: Path) -> Iterator[Path]:
        """Hold the packages' directory for one change, as far as locks work. Yields its path.

        Afterwards empty directories and the lock file are removed.
        """
        with contextlib.ExitStack() as held:
            with contextlib.suppress(LockUnavailable):
                held.enter_context(fs.lock("install.lock", opp / LOCK_NAME, PATIENCE))
            held.enter_context(kept_out(PATIENCE))
            try:
                ai_core = self.directory(opp)
                for each in (ai_core.parent, ai_core, ai_core / "config"):
                    self.look(fs, each)
                yield ai_core
            finally:
                self.sweep(fs, opp)
                with contextlib.suppress(OSError):
                    fs.remove("install.unlock", opp / LOCK_NAME)

    def directory(self, opp: Path) -> Path:
        """The directory of all packages.

        Raises ``RegistryError`` if it or one of its parents below ``opp`` is a symbolic link.
        """
        for path in (opp / "static_kernel", opp / AI_CORE, opp / AI_CORE / "config"):
            if path.is_symlink():
                raise RegistryError(f"[{path}] is a link; put a directory there")
        return opp / AI_CORE

    def stage(self, fs: Fs, ai_core: Path, package: Package, holders: Iterable[Holder]) -> Path:
        """Write the package to a temporary directory next to its place, synced to disk."""
        staged = fs.temporary_path(ai_core / package.manifest.name)
        leases = {f"{LEASES}/{holder.name}": b"" for holder in holders}
        files = {**package.files, MANIFEST: package.manifest.to_bytes(), **leases}
        directories = {staged, staged / LEASES, *((staged / path).parent for path in files)}
        for directory in sorted(directories):
            self.make_directories(fs, directory)
        for path, data in files.items():
            mode = 0o750 if path in EXECUTABLES else None
            fs.write_new("install.file", staged / path, data, mode)
        for directory in sorted({*directories, *(each.parent for each in directories)}):
            if directory != ai_core:
                fs.sync_directory("install.sync", directory)
        return staged

    # Removing directories.

    def sweep(self, fs: Fs, opp: Path) -> None:
        """Remove the empty directories of the packages' tree."""
        config = opp / AI_CORE / "config"
        socs = [Path(entry.path) for entry in fs.entries("install.list", config)]
        for path in (*socs, config, opp / AI_CORE, opp / "static_kernel"):
            with contextlib.suppress(OSError):  # not empty, or missing
                if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                    fs.remove_directory("install.sweep", path)
