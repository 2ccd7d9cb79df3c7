"""The installed packages, and the list that keeps their load order.

The directories decide which packages are installed, ``config.ini`` decides their order, and the
indexes are derived from both. Source: facts ``static-kernel`` sections 3.2 and 3.3.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import Package
from pytest_ascendcache.reference.static_kernel.index_file import IndexPolicy
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder

ATTEMPTS = 20
"""How often a process tries again after changes by other nodes before it gives up."""

_PRIORITY = "load_priority"
_SHARED = ("version.info", "uninstall.sh")
"""Files of CANN's installer next to the packages; its ``uninstall.sh`` removes every package."""
_LAST_PACKAGE = re.compile(rb"(?<=/)[^/]+(?=/scripts)")


class InstalledPolicy(IndexPolicy):
    """Keeps list and indexes in line with the installed packages."""

    def names(self, fs: Fs, ai_core: Path) -> list[str]:
        """The packages in load order: those in ``config.ini``, then others of this installer."""
        existing = [each for each in self.directories(fs, ai_core) if each[0] != "."]
        listed = [each for each in self.order(fs, ai_core) if each in existing]
        return listed + [
            each for each in existing if each not in listed and self.is_ours(ai_core / each)
        ]

    def order(self, fs: Fs, ai_core: Path) -> list[str]:
        """The names in ``config.ini``, in its order."""
        try:
            text = (self.content(fs, ai_core / "config.ini") or b"").decode()
        except UnicodeDecodeError:
            return []
        # CANN appends a comma and a name to the file, even after a line end.
        key, _, listed = text.partition("=")
        names = re.split(r"[,\s]+", listed) if key.strip() == _PRIORITY else []
        return list(dict.fromkeys(filter(None, names)))

    def is_installed(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> bool:
        """Whether exactly this package is installed, with all its files unchanged."""
        directory = ai_core / package.manifest.name
        if package.manifest.name not in names or not (directory / LEASES).is_dir():
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

    def settle(self, fs: Fs, ai_core: Path) -> list[str]:
        """Update list and indexes until they match the directories. Returns the names in order.

        Another node may write an outdated list at the same time. It looks again too, so the last
        one to write has seen all changes.
        """
        for _ in range(ATTEMPTS):
            names = self.names(fs, ai_core)
            if not self.write(fs, ai_core, names):
                break
        if not names:
            self.clear(fs, ai_core)
        return names

    def write(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Write list and indexes for these packages. Returns whether any file changed."""
        listed = self.write_order(fs, ai_core, names)
        return self.write_indexes(fs, ai_core, names) or listed

    def clean(self, fs: Fs, ai_core: Path) -> None:
        """Remove the temporary files of killed processes."""
        config = ai_core / "config"
        self.remove_leftovers(fs, ai_core)
        for soc in self.directories(fs, config):
            self.remove_leftovers(fs, config / soc)

    def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Write the list. Returns whether it changed."""
        path = ai_core / "config.ini"
        if list(names) == self.order(fs, ai_core):
            return False
        if names:
            # No line end, because CANN's installer appends to the file.
            self.publish(fs, "install.config", path, f"{_PRIORITY}={','.join(names)}".encode())
            self.repoint(fs, ai_core / "uninstall.sh", names)
        else:
            fs.remove("install.config.remove", path)
        return True

    def repoint(self, fs: Fs, script: Path, names: Sequence[str]) -> None:
        """Make CANN's ``uninstall.sh`` start the script of a package that is installed."""
        text = self.content(fs, script) or b""
        match = _LAST_PACKAGE.search(text)
        if match is not None and os.fsdecode(match[0]) not in names:
            wanted = _LAST_PACKAGE.sub(names[-1].encode(), text)
            self.publish(fs, "install.uninstaller", script, wanted, 0o755)

    def clear(self, fs: Fs, ai_core: Path) -> None:
        """After the last package, remove the files of CANN's installer next to the packages."""
        if any(each != "config" for each in self.directories(fs, ai_core)):
            return
        shared = [ai_core / name for name in _SHARED]
        for entry in fs.entries("install.list", ai_core / "config"):
            if not entry.is_symlink():
                shared.append(Path(entry.path) / "shape_info")
        for path in shared:
            if path.exists() and not path.is_symlink():
                self.delete(fs, path)

    # The holders of a package.

    def holders(self, fs: Fs, directory: Path) -> frozenset[Holder]:
        """The living processes that hold a package."""
        leases = (each.name for each in fs.entries("install.leases", directory / LEASES))
        return frozenset(each for each in map(Holder.parse, leases) if each and each.lives())

    def hold(
        self, fs: Fs, directory: Path, holders: Iterable[Holder], leaver: Holder | None = None
    ) -> None:
        """Add leases for ``holders``, and remove those of dead processes and of ``leaver``."""
        known = {each.name for each in fs.entries("install.leases", directory / LEASES)}
        for name in sorted({each.name for each in holders} - known):
            fs.write_new("install.lease", directory / LEASES / name, b"")
        for name in sorted(known):
            holder = Holder.parse(name)
            if holder is None or holder == leaver or not holder.lives():
                fs.remove("install.lease.remove", directory / LEASES / name)
