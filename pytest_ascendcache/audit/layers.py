"""Marks by which a layer of a container's image deletes what the layers below it have.

Where layers are unpacked one over the other, the marks lie beside what they delete. Source: the OCI
image specification, *whiteouts*.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from dataclasses import dataclass, field

from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.reading import CannotRead, Folder
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.caches.recognition import split

_MARK, _ALL = ".wh.", ".wh..wh..opq"


@dataclass
class LayerMarks:
    """The marks in an audited directory; ``deleting`` has those beside what they delete, by the
    path of an entry's files without suffixes, and ``directories`` those of whole directories."""

    result: Audit
    ledger: Ledger
    deleting: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    directories: dict[str, str] = field(default_factory=dict)

    def take(self, folder: Folder, name: str) -> bool:
        """Note a mark; returns whether a name is one."""
        if not name.startswith(_MARK):
            return False
        deleted = name.removeprefix(_MARK)
        try:
            info, target = folder.look(name), folder.look(deleted)
        except CannotRead:
            return False
        if info is None or info.st_size or not stat.S_ISREG(info.st_mode):
            return False
        self.result.account.known["marks of container layers"] += 1
        if name == _ALL:
            self.directories[folder.path(name)] = folder.relative
        elif target is not None and stat.S_ISDIR(target.st_mode):
            self.directories[folder.path(name)] = folder.path(deleted)
        elif target is not None:
            self.deleting[folder.path(split(deleted)[0])] += [folder.path(name)]
        return True

    def conclude(self) -> None:
        """Report marks in caches, beside what they delete: toolchains use it again."""
        for marks in self.deleting.values():
            folder = marks[0].rpartition("/")[0]
            if any(_is_in(folder, unit) for unit in self.result.units):
                files = [each.rpartition("/")[2].removeprefix(_MARK) for each in marks]
                detail = (
                    f"marks {printable(', '.join(sorted(files)))} as deleted by a container's "
                    "layer, and that is here: layers were unpacked one over the other, and what "
                    "was deleted is used again"
                )
                paths = [f"{folder}/{each}".lstrip("/") for each in files]
                self.ledger.add(Check.LEFTOVERS, marks[0], detail, 0, (*marks, *paths))
        for mark, directory in self.directories.items():
            units = (each for each in self.result.units if _is_in(each, directory))
            around = (each for each in self.result.units if _is_in(directory, each))
            if any(self.result.units[each].entries for each in (*units, *around)):
                detail = (
                    "is a container layer's mark that all is deleted which layers below it have in "
                    f"{printable(directory or '.')}: layers were unpacked one over the other, and "
                    "which of the entries are deleted is not known"
                )
                self.ledger.add(Check.LEFTOVERS, mark, detail)


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/" if directory else "")
