"""What is installed, and the list of it that is kept in load order.

The directories say what is there; ``config.ini`` says in which order, and the indexes follow from
both. Source: facts ``static-kernel`` sections 3.2 and 3.3.
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
"""How often one is overtaken by other nodes before it gives up."""

_PRIORITY = "load_priority"
_SHARED = ("version.info", "uninstall.sh")
"""What CANN's installer keeps beside packages; its ``uninstall.sh`` removes every package."""
_LAST_PACKAGE = re.compile(rb"(?<=/)[^/]+(?=/scripts)")


class InstalledPolicy(IndexPolicy):
    """Keeps list and indexes those of the packages that are there."""

    def names(self, fs: Fs, ai_core: Path) -> list[str]:
        """Packages in load order: as ``config.ini`` lists them, then others of ours."""
        there = [each for each in self.directories(fs, ai_core) if each[0] != "."]
        listed = [each for each in self.order(fs, ai_core) if each in there]
        return listed + [
            each for each in there if each not in listed and self.is_ours(ai_core / each)
        ]

    def order(self, fs: Fs, ai_core: Path) -> list[str]:
        """What ``config.ini`` lists, in its order."""
        try:
            text = (self.content(fs, ai_core / "config.ini") or b"").decode()
        except UnicodeDecodeError:
            return []
        # CANN appends a comma and a name to whatever is there, a line's end included.
        word, _, listed = text.partition("=")
        names = re.split(r"[,\s]+", listed) if word.strip() == _PRIORITY else []
        return list(dict.fromkeys(filter(None, names)))

    def is_installed(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> bool:
        """Whether this very package is installed, every byte of it."""
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
        """Have list and index say what is there, and look again; the names in load order.

        Another node may have written what it saw before. It looks again too, so the last one to
        write has seen everything.
        """
        for _ in range(ATTEMPTS):
            names = self.names(fs, ai_core)
            if not self.write(fs, ai_core, names):
                break
        if not names:
            self.clear(fs, ai_core)
        return names

    def write(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Make list and index those of these packages; whether they were others."""
        listed = self.write_order(fs, ai_core, names)
        return self.write_indexes(fs, ai_core, names) or listed

    def clean(self, fs: Fs, ai_core: Path) -> None:
        """Remove what killed processes have left."""
        config = ai_core / "config"
        self.remove_leftovers(fs, ai_core)
        for soc in self.directories(fs, config):
            self.remove_leftovers(fs, config / soc)

    def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        """Set the list; whether it was another."""
        path = ai_core / "config.ini"
        if list(names) == self.order(fs, ai_core):
            return False
        if names:
            # Without a line's end: CANN's installer appends to it.
            self.publish(fs, "install.config", path, f"{_PRIORITY}={','.join(names)}".encode())
            self.repoint(fs, ai_core / "uninstall.sh", names)
        else:
            fs.remove("install.config.remove", path)
        return True

    def repoint(self, fs: Fs, script: Path, names: Sequence[str]) -> None:
        """Have CANN's ``uninstall.sh`` of all packages start the script of one that is there."""
        text = self.content(fs, script) or b""
        found = _LAST_PACKAGE.search(text)
        if found is not None and os.fsdecode(found[0]) not in names:
            wanted = _LAST_PACKAGE.sub(names[-1].encode(), text)
            self.publish(fs, "install.uninstaller", script, wanted, 0o755)

    def clear(self, fs: Fs, ai_core: Path) -> None:
        """After the last package: what CANN's installer has put beside them goes too."""
        if any(each != "config" for each in self.directories(fs, ai_core)):
            return
        shared = [ai_core / name for name in _SHARED]
        for entry in fs.entries("install.list", ai_core / "config"):
            if not entry.is_symlink():
                shared.append(Path(entry.path) / "shape_info")
        for path in shared:
            if path.exists() and not path.is_symlink():
                self.delete(fs, path)

    # Who holds a package.

    def holders(self, fs: Fs, directory: Path) -> frozenset[Holder]:
        """The living processes that hold a package."""
        named = (each.name for each in fs.entries("install.leases", directory / LEASES))
        return frozenset(each for each in map(Holder.parse, named) if each and each.lives())

    def hold(
        self, fs: Fs, directory: Path, holders: Iterable[Holder], leaver: Holder | None = None
    ) -> None:
        """Have an installed package held by these, and by nobody who is dead or leaves."""
        known = {each.name for each in fs.entries("install.leases", directory / LEASES)}
        for name in sorted({each.name for each in holders} - known):
            fs.write_new("install.lease", directory / LEASES / name, b"")
        for name in sorted(known):
            found = Holder.parse(name)
            if found is None or found == leaver or not found.lives():
                fs.remove("install.lease.remove", directory / LEASES / name)
