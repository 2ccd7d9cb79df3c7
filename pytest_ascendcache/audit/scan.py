"""One pass over a directory of caches.

It writes nothing, follows no link and loads no code; it needs a few bytes of memory per entry.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_ascendcache.audit.cann import SocCache
from pytest_ascendcache.audit.entries import Judge, reported
from pytest_ascendcache.audit.findings import Check, Ledger, Removal
from pytest_ascendcache.audit.mindspore import AkgKernels, GraphCache, RankKernels
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Folder, Reader
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.static import InstalledKernels, StaticOutputs
from pytest_ascendcache.audit.summary import Summary
from pytest_ascendcache.audit.walk import Visit, Walk
from pytest_ascendcache.caches.recognition import Kind, Place, split
from pytest_ascendcache.contract import Edition
from pytest_ascendcache.contract.editions import default

_NAMED = 20
"""How many paths of one owner are named."""

_TEMPORARY = (".temp", ".tmp")
_OF_FILES = frozenset((".json", ".o", ".so", ".h", ".info", ".mindir", ".hash", ".ini", ".run"))


def audit(
    directory: Path,
    *,
    environment: Mapping[str, str] | None = None,
    suggest: Callable[[Removal], None] | None = None,
    edition: Edition | None = None,
) -> Audit:
    """Read every file below ``directory`` once.

    ``environment`` supplies limits that no file sets (default: this process's environment).
    ``suggest`` is called with files whose removal mends the cache. The ``edition`` of CANN's
    documents decides what ini files and variables mean.
    """
    scan = _Scan(directory.absolute(), Ledger(suggest))
    return scan.run(os.environ if environment is None else environment, edition or default())


_JUDGES: Mapping[Kind, type[Judge]] = {
    Kind.KERNEL_META: RankKernels,
    Kind.AKG: AkgKernels,
    Kind.GRAPH_CACHE: GraphCache,
    Kind.STATIC_OUTPUTS: StaticOutputs,
}
"""The judges that need nothing but the ledger."""


class _Scan:
    """The pass over one directory; sends each file to the judge of its cache."""

    def __init__(self, directory: Path, ledger: Ledger) -> None:
        self._result = Audit(directory, found=ledger.found)
        self._ledger = ledger
        self._reader = Reader()
        self._owners: Counter[int] = Counter()
        self._owned: defaultdict[int, list[str]] = defaultdict(list)

    def run(self, environment: Mapping[str, str], edition: Edition) -> Audit:
        result = self._result
        walk = Walk(result.directory, self._reader, self._failed, result.changed.add)
        for visit in walk:
            self._directory(visit)
        self._mixed_owners()
        now = time.time()
        Summary(result, self._ledger, self._reader, environment, now, edition).conclude()
        result.renewed = self._reader.renewed
        return result

    def _failed(self, path: str, error: OSError) -> None:
        self._result.unlisted.add(f"{path}: {error.strerror}")

    def _directory(self, visit: Visit) -> None:
        place, folder = visit.place, visit.folder
        if place is None:
            return  # no cache, so nothing to audit
        self._attributes(folder, "", os.fstat(folder.descriptor))
        if place.kind is Kind.RANK:
            self._result.ranks.append(folder.relative)
        judge = self._judge(place) if place.kind.holds_entries else None
        soc = judge if isinstance(judge, SocCache) else None
        for entry in visit.entries:
            name = entry.name
            if entry.is_file(follow_symlinks=False):
                if soc is None or not soc.defers(folder, name):
                    self._entry(folder, name, judge)
                continue
            if soc is not None:
                soc.no_file(folder, name)
            if entry.is_dir(follow_symlinks=False):
                visit.enter(name)
                self._inner_directory(folder, name, judge)
            else:
                self._entry(folder, name, judge)

    def _inner_directory(self, folder: Folder, name: str, judge: Judge | None) -> None:
        if isinstance(judge, StaticOutputs):
            judge.directory(folder, name)
        if split(name)[1] in _OF_FILES:
            detail = "is a directory where a file is expected: nothing can be stored there"
            self._ledger.add(Check.PLAIN_FILES, folder.path(name), detail)

    def _judge(self, place: Place) -> Judge:
        units = self._result.units
        if place.unit not in units:
            self._result.kinds[place.unit] = place.kind
            if place.kind is Kind.SOC:
                units[place.unit] = SocCache(self._ledger, seen=self._seen)
            elif place.kind is Kind.STATIC_INSTALLED:
                units[place.unit] = InstalledKernels(self._ledger, unit=place.unit)
            else:
                units[place.unit] = _JUDGES[place.kind](self._ledger)
        return units[place.unit]

    def _entry(self, folder: Folder, name: str, judge: Judge | None) -> None:
        info = folder.look(name)
        if info is None:
            self._result.changed.add(f"{folder.path(name)} went away")
            return
        if not stat.S_ISREG(info.st_mode):
            self._no_file(folder.path(name), info)
            return
        self._seen(folder, name, info)
        if name.endswith(_TEMPORARY):
            path, detail = folder.path(name), "a writer's temporary file, left behind"
            self._ledger.add(Check.LEFTOVERS, path, detail, info.st_size, (path,))
        if judge is None:
            return
        try:
            with reported(self._ledger):
                judge.file(folder, name, info)
        except CannotRead as error:
            self._result.unread.add(str(error))
        except ChangedWhileRead as error:
            self._result.changed.add(str(error))

    def _seen(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Count a file and check its owner and mode."""
        self._result.files += 1
        self._result.bytes += info.st_size
        self._attributes(folder, name, info)

    def _no_file(self, path: str, info: os.stat_result) -> None:
        kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(info.st_mode), "a device")
        detail = f"is {kind}: a toolchain that reads, purges or ages here reaches what it leads to"
        remove = (path,) if kind == "a link" else ()
        self._ledger.add(Check.PLAIN_FILES, path, detail, 0, remove)

    def _attributes(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Check owner and mode of a cache's file or, without a name, of its directory."""
        if info.st_mode & stat.S_IWOTH:
            what, size = ("the file", info.st_size) if name else ("the directory", 0)
            mode = stat.S_IMODE(info.st_mode)
            detail = f"{what} has mode {mode:04o}: everybody can put code into it"
            self._ledger.add(Check.PRIVATE_MODES, _path(folder, name), detail, size)
        self._owners[info.st_uid] += 1
        if self._owners[info.st_uid] <= _NAMED:
            self._owned[info.st_uid].append(_path(folder, name))

    def _mixed_owners(self) -> None:
        """Report the files of every owner but the one with most of them.

        Other users can neither renew their access times nor remove them.
        """
        (most, of_most), *others = self._owners.most_common() or [(0, 0)]
        for owner, count in others:
            detail = f"is one of {count} of user {owner}; {of_most} are of user {most}"
            for path in self._owned[owner]:
                self._ledger.add(Check.ONE_OWNER, path, detail)


def _path(folder: Folder, name: str) -> str:
    return folder.path(name) if name else folder.relative or "."
