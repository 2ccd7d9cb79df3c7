"""Installed packages: ``static_kernel/ai_core`` below an operator package.

====================================  =========================================================
``<package>/``                        kernels, ``package.json``, ``uninstall.sh``, ``leases/``
``config.ini``                        ``load_priority=a,b``: what is installed, in load order
``config/<soc>/binary_info_config``   ``.json``: the index every process reads
====================================  =========================================================

A package is installed when its directory stands under its name, whole, by one rename. Everything
else follows from the directories: a process that changes any makes list and index of them, and
looks again until both say what is there. So of two nodes the last one to write sees what both have
done, and what a killed one left undone the next one does. An index names a package last and lets
go of it first. A lock, where it holds, has processes take turns, so that nobody reads an index of
another moment; nothing else rests on it. CANN's installers are waited for on the same node.
Source: facts ``static-kernel`` sections 3.2 and 3.3.
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
"""Seconds an installer waits for others that install."""
_OVERTAKEN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ESTALE)
"""What a name says that another node has changed meanwhile."""

Done = TypeVar("Done")


class RegistryPolicy(InstalledPolicy):
    """Installs and removes packages. ``opp`` is the operator package's directory."""

    def install(self, fs: Fs, opp: Path, package: Package, holder: Holder | None = None) -> bool:
        """Install a package, in place of one of the same name; whether anything had to be done.

        ``holder`` is the process it is installed for, beside those it is held by already.

        Raises:
            OSError: where it cannot be; then nothing of it is installed.
            RegistryError: where something that is no package has its name.
        """
        with self.turn(fs, opp) as ai_core:
            self.clean(fs, ai_core)
            return self.tried_again(lambda: self.put(fs, ai_core, package, holder))

    def put(self, fs: Fs, ai_core: Path, package: Package, holder: Holder | None) -> bool:
        """Install a package unless another node is quicker; whether anything had to be done."""
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
        """Have a staged package be what has its name."""
        if (ai_core / name).is_dir():
            self.remove(fs, ai_core, name, force=True)  # its holders hold the staged one
        fs.replace("install.rename", staged, ai_core / name)
        fs.sync_directory("install.sync", ai_core)

    def give_up(
        self, fs: Fs, ai_core: Path, staged: Path, name: str, holder: Holder | None
    ) -> None:
        """After a failed install: nothing of it stays; what it replaces does if untouched."""
        if staged.exists():
            self.delete(fs, staged)
        else:
            self.remove(fs, ai_core, name, holder)
        self.settle(fs, ai_core)

    def uninstall(
        self, fs: Fs, opp: Path, name: str, holder: Holder | None = None, force: bool = False
    ) -> tuple[bool, frozenset[Holder]]:
        """Remove the package of exactly this name; whether it was installed, and who but
        ``holder`` holds it, so that it stays. With ``force`` it goes all the same.

        Raises:
            OSError: where it cannot be.
        """

        def attempt() -> tuple[bool, frozenset[Holder]]:
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

        with self.turn(fs, opp) as ai_core:
            self.clean(fs, ai_core)
            return self.tried_again(attempt)

    def uninstall_all(self, fs: Fs, opp: Path) -> list[str]:
        """Remove every package, also those that other processes hold; their names."""

        def attempt() -> list[str]:
            names = self.settle(fs, ai_core)
            self.write(fs, ai_core, [])
            for name in names:
                self.delete(fs, self.hide(fs, ai_core / name))
            self.settle(fs, ai_core)
            return names

        with self.turn(fs, opp) as ai_core:
            self.clean(fs, ai_core)
            return self.tried_again(attempt)

    def tried_again(self, attempt: Callable[[], Done]) -> Done:
        """What becomes of it, begun anew where another node has changed what it found.

        Raises:
            OSError: for any other reason, or where that does not end.
        """
        for _ in range(ATTEMPTS):
            try:
                return attempt()
            except OSError as error:
                if error.errno not in _OVERTAKEN:
                    raise
        return attempt()

    def refuse_foreign(self, directory: Path) -> None:
        """Leave alone what another installer, or a person, has put there.

        Raises:
            RegistryError: where there is such a thing.
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
        """Take a package out of list and index, then away. Who but ``leaver`` has come to hold it
        meanwhile, so that it is back; with ``force`` nobody is asked."""
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
                self.hold(fs, ai_core / name, left)  # it was installed anew
        self.delete(fs, hidden)
        return left

    def hide(self, fs: Fs, directory: Path) -> Path:
        """Take a package's name away at once; what has become of its directory."""
        hidden = fs.temporary_path(directory)
        fs.replace("uninstall.rename", directory, hidden)
        fs.sync_directory("uninstall.sync", directory.parent)
        return hidden

    @contextlib.contextmanager
    def turn(self, fs: Fs, opp: Path) -> Iterator[Path]:
        """Where packages are, alone with them as far as locks hold. Nothing that is empty is left,
        nor the lock itself."""
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
        """Where packages are.

        Raises:
            RegistryError: where a link stands in the way.
        """
        for path in (opp / "static_kernel", opp / AI_CORE, opp / AI_CORE / "config"):
            if path.is_symlink():
                raise RegistryError(f"[{path}] is a link; put a directory there")
        return opp / AI_CORE

    def stage(self, fs: Fs, ai_core: Path, package: Package, holders: Iterable[Holder]) -> Path:
        """A copy of the package beside its place, every byte of it on the disk."""
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

    # Getting rid of things.

    def sweep(self, fs: Fs, opp: Path) -> None:
        """Remove directories that are empty."""
        config = opp / AI_CORE / "config"
        socs = [Path(entry.path) for entry in fs.entries("install.list", config)]
        for path in (*socs, config, opp / AI_CORE, opp / "static_kernel"):
            with contextlib.suppress(OSError):  # not empty, or not there
                if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                    fs.remove_directory("install.sweep", path)
