"""Installed packages: ``static_kernel/ai_core`` below an operator package.

====================================  =========================================================
``<package>/``                        kernels, ``package.json``, ``uninstall.sh``, ``leases/``
``config.ini``                        ``load_priority=a,b``: what is installed, in load order
``config/<soc>/binary_info_config``   ``.json``: the index every process reads
====================================  =========================================================

``config.ini`` decides what is installed, the rest follows from it. A package's files are complete
before ``config.ini`` names it, and stay until the index no longer does; so the index never names
a kernel that is not there, wherever a process is killed, and :meth:`RegistryPolicy.repair` can
finish what was cut short. All of it happens under a lock that ends with its holder, and while no
installer of CANN is at work. Source: facts ``static-kernel`` sections 3.2 and 3.3.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import EXECUTABLES, MANIFEST, Package
from pytest_ascendcache.reference.static_kernel.index_file import IndexPolicy, RegistryError
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.neighbours import kept_out

AI_CORE = Path("static_kernel/ai_core")
LOCK_NAME = ".static_kernel.lock"
PATIENCE = 120.0
"""Seconds an installer waits for others that install."""

_PRIORITY = "load_priority"
_SHARED = ("version.info", "uninstall.sh")
"""What CANN's installer keeps beside packages; its ``uninstall.sh`` removes every package."""
_LAST_PACKAGE = re.compile(rb"(?<=/)[^/]+(?=/scripts)")


class RegistryPolicy(IndexPolicy):
    """Installs and removes packages. ``opp`` is the operator package's directory."""

    def install(self, fs: Fs, opp: Path, package: Package, holder: Holder | None = None) -> bool:
        """Install a package, in place of one of the same name; whether anything had to be done.

        ``holder`` is the process it is installed for, beside those it is held by already.

        Raises:
            OSError: where it cannot be; then nothing of it is installed.
            RegistryError: where something that is no package has its name.
        """
        with self.locked(fs, opp):
            ai_core = self.directory(opp)
            names = self.repair(fs, ai_core)
            place = ai_core / package.manifest.name
            holders = {*self.holders(fs, place), *([holder] if holder else [])}
            if self.is_installed(fs, ai_core, package, names):
                self.hold(fs, place, holders)
                return False
            self.refuse_foreign(place)
            try:
                self.replace(fs, ai_core, package, names, holders)
            except BaseException:
                with contextlib.suppress(OSError):
                    self.give_up(fs, ai_core, package.manifest.name, names)
                raise
            return True

    def replace(
        self,
        fs: Fs,
        ai_core: Path,
        package: Package,
        names: Sequence[str],
        holders: Iterable[Holder],
    ) -> None:
        """Install a package that is not installed as it should be, or another of its name is."""
        name = package.manifest.name
        staged = self.stage(fs, ai_core, package, holders)
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

    def uninstall(
        self, fs: Fs, opp: Path, name: str, holder: Holder | None = None, force: bool = False
    ) -> tuple[bool, frozenset[Holder]]:
        """Remove the package of exactly this name; whether it was installed, and who but
        ``holder`` holds it, so that it stays. With ``force`` it goes all the same.

        Raises:
            OSError: where it cannot be.
        """
        with self.locked(fs, opp):
            ai_core = self.directory(opp)
            names = self.repair(fs, ai_core)
            if name not in names:
                return False, frozenset()
            self.refuse_foreign(ai_core / name)
            left = self.holders(fs, ai_core / name) - {holder}
            if left and not force:
                self.hold(fs, ai_core / name, left)
                return True, left
            self.remove(fs, ai_core, name, [each for each in names if each != name])
            return True, frozenset()

    def uninstall_all(self, fs: Fs, opp: Path) -> list[str]:
        """Remove every package, also those that other processes hold; their names."""
        with self.locked(fs, opp):
            ai_core = self.directory(opp)
            names = self.repair(fs, ai_core)
            self.write_order(fs, ai_core, [])
            self.write_indexes(fs, ai_core, [])
            for name in names:
                self.discard(fs, ai_core / name)
            self.clear(fs, ai_core)
            return names

    # Who holds a package.

    def holders(self, fs: Fs, directory: Path) -> frozenset[Holder]:
        """The living processes that hold a package."""
        named = (each.name for each in fs.entries("install.leases", directory / LEASES))
        return frozenset(each for each in map(Holder.parse, named) if each and each.lives())

    def hold(self, fs: Fs, directory: Path, holders: Iterable[Holder]) -> None:
        """Have an installed package held by these and nobody else."""
        names = {each.name for each in holders}
        known = {each.name for each in fs.entries("install.leases", directory / LEASES)}
        if names:
            self.make_directories(fs, directory / LEASES)
        for name in sorted(names - known):
            fs.write_new("install.lease", directory / LEASES / name, b"")
        for name in sorted(known - names):
            fs.remove("install.lease.remove", directory / LEASES / name)

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
        if not others:
            self.clear(fs, ai_core)

    @contextlib.contextmanager
    def locked(self, fs: Fs, opp: Path) -> Iterator[None]:
        """Alone with the packages. Nothing that is empty is left, nor the lock itself."""
        with fs.lock("install.lock", opp / LOCK_NAME, PATIENCE):
            try:
                with kept_out(PATIENCE):
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
            text = fs.read("install.order", ai_core / "config.ini").decode()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return []
        # CANN appends a comma and a name to whatever is there, a line's end included.
        word, _, listed = text.partition("=")
        names = re.split(r"[,\s]+", listed) if word.strip() == _PRIORITY else []
        return list(dict.fromkeys(filter(None, names)))

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
        if not names:
            self.clear(fs, ai_core)
        return names

    def stage(self, fs: Fs, ai_core: Path, package: Package, holders: Iterable[Holder]) -> Path:
        """A copy of the package beside its place, every byte of it on the disk."""
        staged = fs.temporary_path(ai_core / package.manifest.name)
        leases = {f"{LEASES}/{holder.name}": b"" for holder in holders}
        files = {**package.files, MANIFEST: package.manifest.to_bytes(), **leases}
        directories = {staged, *((staged / path).parent for path in files)}
        for directory in sorted(directories):
            self.make_directories(fs, directory)
        for path, data in files.items():
            mode = 0o750 if path in EXECUTABLES else None
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
            # Without a line's end: CANN's installer appends to it.
            self.publish(fs, "install.config", path, f"{_PRIORITY}={','.join(names)}".encode())
            self.repoint(fs, ai_core / "uninstall.sh", names)
        else:
            fs.remove("install.config.remove", path)

    def repoint(self, fs: Fs, script: Path, names: Sequence[str]) -> None:
        """Have CANN's ``uninstall.sh`` of all packages start the script of one that is there."""
        text = self.content(fs, script) or b""
        found = _LAST_PACKAGE.search(text)
        if found is not None and os.fsdecode(found[0]) not in names:
            wanted = _LAST_PACKAGE.sub(names[-1].encode(), text)
            self.publish(fs, "install.uninstaller", script, wanted, 0o755)

    # Getting rid of things.

    def discard(self, fs: Fs, directory: Path) -> None:
        """Remove a package's directory: its name at once, then what it holds."""
        hidden = fs.temporary_path(directory)
        fs.replace("uninstall.rename", directory, hidden)
        fs.sync_directory("uninstall.sync", directory.parent)
        self.delete(fs, hidden)

    def clear(self, fs: Fs, ai_core: Path) -> None:
        """After the last package: what CANN's installer has put beside them goes too."""
        if any(
            each.is_dir() and each.name != "config" for each in fs.entries("install.list", ai_core)
        ):
            return
        shared = [ai_core / name for name in _SHARED]
        for entry in fs.entries("install.list", ai_core / "config"):
            if not entry.is_symlink():
                shared.append(Path(entry.path) / "shape_info")
        for path in shared:
            if path.exists() and not path.is_symlink():
                self.delete(fs, path)

    def sweep(self, fs: Fs, opp: Path) -> None:
        """Remove directories that are empty."""
        config = opp / AI_CORE / "config"
        socs = [Path(entry.path) for entry in fs.entries("install.list", config)]
        for path in (*socs, config, opp / AI_CORE, opp / "static_kernel"):
            with contextlib.suppress(OSError):  # not empty, or not there
                if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                    fs.remove_directory("install.sweep", path)
