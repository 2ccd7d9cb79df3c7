"""One pass over a directory of caches.

It writes nothing, follows no link to a directory and loads no code; it needs a few bytes of memory
per entry.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_ascendcache.audit.account import TEMPORARY, is_loadable, known
from pytest_ascendcache.audit.beside import INSIDE, TARGETS, Beside, LinkTargets, leads_to_a_file
from pytest_ascendcache.audit.cann import KernelFolder, SocCache
from pytest_ascendcache.audit.entries import (
    EntryJudge,
    EntryProblem,
    kind_of,
    reported,
)
from pytest_ascendcache.audit.findings import Check, Ledger, Removal, printable
from pytest_ascendcache.audit.indexed import GeGraphs, PackageConfig
from pytest_ascendcache.audit.layers import LayerMarks
from pytest_ascendcache.audit.mindspore import AkgKernels, GraphCache, PreBuilds, RankKernels
from pytest_ascendcache.audit.owners import Owners
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Folder, Reader
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.scratch import Scratch
from pytest_ascendcache.audit.static import AuditedInstallation, StaticOutputs
from pytest_ascendcache.audit.summary import Summary
from pytest_ascendcache.audit.walk import Stopped, Visit, Walk, WalkWatch
from pytest_ascendcache.caches.cards import card_of
from pytest_ascendcache.caches.chips import chip_of
from pytest_ascendcache.caches.recognition import CacheKind, CachePlace, split
from pytest_ascendcache.contract import Edition
from pytest_ascendcache.contract.editions import default

_OF_FILES = frozenset(
    (".lock", ".json", ".o", ".so", ".h", ".info", ".mindir", ".hash", ".ini", ".run")
)


def audit(
    directory: Path,
    *,
    environment: Mapping[str, str] | None = None,
    suggest: Callable[[Removal], None] | None = None,
    edition: Edition | None = None,
    watch: WalkWatch | None = None,
) -> Audit:
    """Read every file below ``directory`` once.

    ``environment`` supplies limits that no file sets (default: this process's). ``suggest`` is
    called with files whose removal mends the cache. A ``watch`` limits the time and tells how far
    it is; with one, SIGINT ends the search and what was found so far is returned.
    """
    scan = _Scan(directory.absolute(), Ledger(suggest), watch)
    return scan.run(os.environ if environment is None else environment, edition or default())


_JUDGES: Mapping[CacheKind, type[EntryJudge]] = {
    CacheKind.KERNEL_META: RankKernels,
    CacheKind.PRE_BUILDS: PreBuilds,
    CacheKind.AKG: AkgKernels,
    CacheKind.GRAPH_CACHE: GraphCache,
    CacheKind.STATIC_OUTPUTS: StaticOutputs,
    CacheKind.PACKAGE_CONFIG: PackageConfig,
}
"""The judges that need nothing but the ledger."""


class _Scan:
    """The pass over one directory; sends each file to the judge of its cache, and accounts for
    every name."""

    def __init__(self, directory: Path, ledger: Ledger, watch: WalkWatch | None) -> None:
        self._result = Audit(directory, found=ledger.found)
        self._ledger = ledger
        self._beside = Beside(self._result, ledger)
        self._marks = LayerMarks(self._result, ledger)
        self._reader = Reader()
        self._interruptible = watch is not None
        self._watch = watch or WalkWatch()
        self._owners = Owners()
        self._open: list[tuple[str, str]] = []
        self._closed = 0
        self._targets = LinkTargets(
            Walk(directory, self._reader, lambda *_: None, self._result.changed.add),
            self._watch.tick,
        )

    def run(self, environment: Mapping[str, str], edition: Edition) -> Audit:
        result = self._result
        walk = Walk(
            result.directory,
            self._reader,
            failed=lambda path, error: result.unlisted.add(f"{path}: {error.strerror}"),
            changed=result.changed.add,
            too_deep=lambda path: self._unread(path, "is deeper than the search goes"),
        )
        try:
            for visit in walk:
                self._directory(visit)
        except Stopped as error:
            result.stopped = str(error)
        except KeyboardInterrupt:
            if not self._interruptible:
                raise
            result.stopped = "it was interrupted"
        self._owners.conclude(self._ledger)
        self._marks.conclude()
        for path, detail in self._open:
            if any(path in ("", ".") or each.startswith(f"{path}/") for each in result.units):
                self._ledger.add(Check.PRIVATE_MODES, path or ".", detail)
        if self._closed:
            note = f"{self._closed} files have a mode with which only root may read them"
            result.notes.setdefault(Check.PRIVATE_MODES, []).append(note)
        now = time.time()
        Summary(result, self._ledger, self._reader, environment, now, edition).conclude()
        result.renewed = self._reader.renewed
        return result

    def _unread(self, path: str, reason: str) -> None:
        self._result.account.unread.add(f"{printable(path)}: {reason}")

    def _directory(self, visit: Visit) -> None:
        place, folder, account = visit.place, visit.folder, self._result.account
        self._result.directories += 1
        if card_of(folder.relative) is not None:
            self._result.counted.append(folder.relative)
        info = os.fstat(folder.descriptor)
        if place is not None:
            self._attributes(folder, "", info)
        elif not info.st_mode & stat.S_ISVTX and (detail := _open_to_all(info, "the directory")):
            self._open.append((folder.relative, detail))
        judge = None
        if place is not None and place.kind.holds_entries:
            judge = self._judge(place)
        kernels = judge if isinstance(judge, KernelFolder) else None
        entries = (each for each in visit.entries if not self._marks.take(folder, each.name))
        for number, entry in enumerate(entries):
            if not number & 63:
                self._watch.tick()
            name = entry.name
            is_link = (
                judge is not None
                and not isinstance(judge, Scratch)
                and entry.is_symlink()
                and leads_to_a_file(folder, name)
            )
            beside = ""
            if is_link and isinstance(judge, StaticOutputs):  # where nothing is purged
                beside = self._beside.target_beside(folder, name)
            if beside and split(beside)[1] == split(name)[1]:
                account.known[INSIDE] += 1
            elif is_link or entry.is_file(follow_symlinks=False):
                before = account.entries
                if kernels is not None and kernels.defers(folder, name):
                    account.entries += 1
                else:
                    self._file(folder, name, judge, place)
                if is_link and not beside:
                    self._no_plain(folder, name, "a link", is_needed=account.entries > before)
            elif entry.is_dir(follow_symlinks=False):
                visit.enter(name)
                self._inner_directory(folder, name, judge)
            else:
                self._no_file(folder, name, judge, place)

    def _no_plain(self, folder: Folder, name: str, kind: str, *, is_needed: bool) -> None:
        """Warn of what is no plain file. Without a link that is needed its entry is broken."""
        path = folder.path(name)
        detail = f"is {kind}: a toolchain that reads, purges or ages here reaches what it leads to"
        remove = (path,) if kind == "a link" and not is_needed else ()
        self._ledger.add(Check.PLAIN_FILES, path, detail, 0, remove)

    def _inner_directory(self, folder: Folder, name: str, judge: EntryJudge | None) -> None:
        if isinstance(judge, StaticOutputs):
            judge.directory(folder, name)
        info = folder.look(name) if judge is not None and split(name)[1] in _OF_FILES else None
        if judge is None or info is None or self._blamed(folder, name, judge, info):
            return
        detail = "is a directory where a file is expected: nothing can be stored there"
        self._ledger.add(Check.PLAIN_FILES, folder.path(name), detail)

    def _judge(self, place: CachePlace) -> EntryJudge:
        units, unit = self._result.units, place.unit
        if unit not in units:
            self._result.kinds[unit] = place.kind
            path = str(self._result.directory / unit)
            if place.kind in (CacheKind.SOC, CacheKind.KERNELS):
                is_soc = place.kind is CacheKind.SOC
                chip = chip_of(path.rpartition("/")[2] if is_soc else unit or path)
                kind = SocCache if is_soc else KernelFolder
                units[unit] = kind(self._ledger, seen=self._seen, chip=chip)
            elif place.kind is CacheKind.STATIC_INSTALLED:
                units[unit] = AuditedInstallation(self._ledger, unit=unit)
            elif place.kind is CacheKind.SCRATCH:
                units[unit] = Scratch(self._ledger, place=path)
            elif place.kind is CacheKind.GE_GRAPHS:
                units[unit] = GeGraphs(self._ledger, place=path)
            else:
                units[unit] = _JUDGES[place.kind](self._ledger)
        return units[unit]

    def _file(
        self, folder: Folder, name: str, judge: EntryJudge | None, place: CachePlace | None
    ) -> None:
        """Judge a regular file that is not judged together with another one."""
        account = self._result.account
        info = folder.look(name)
        if info is not None and place is None and not name.endswith(".o"):
            self._beside.file(folder, name)
            if name == "op_cache.ini" and (detail := _open_to_all(info, "the file")):
                self._ledger.add(Check.PRIVATE_MODES, folder.path(name), detail)
            return
        if info is None:
            self._result.changed.add(f"{folder.path(name)} went away")
            return
        if place is not None:
            self._seen(folder, name, info)
        if place is not None and TEMPORARY.fullmatch(name):
            path, detail = folder.path(name), "a writer's temporary file, left behind"
            self._ledger.add(Check.LEFTOVERS, path, detail, info.st_size, (path,))
        is_judged = False
        try:
            is_judged = judge is not None and self._judged(folder, name, judge, info)
        except CannotRead as error:
            account.unread.add(str(error))
        except ChangedWhileRead as error:
            self._result.changed.add(str(error))
            account.entries += 1
        else:
            self._class(folder, name, info, is_judged, judge, place)

    def _judged(self, folder: Folder, name: str, judge: EntryJudge, info: os.stat_result) -> bool:
        """Judge a file; returns whether it is part of an entry, which may break a rule."""
        try:
            return judge.file(folder, name, info)
        except EntryProblem as problem:
            is_alone = problem.check is Check.WHOLE_ENTRIES and not name.endswith(".json")
            if is_alone and self._targets.has(folder, name, info):
                return False
            problem.report(self._ledger)
        return True

    def _class(
        self,
        folder: Folder,
        name: str,
        info: os.stat_result,
        is_judged: bool,
        judge: EntryJudge | None,
        place: CachePlace | None,
    ) -> None:
        account = self._result.account
        if is_judged:
            account.entries += 1
        elif isinstance(judge, Scratch):
            account.known["build scratch"] += 1
        elif what := known(name):
            account.known[what] += 1
        elif is_loadable(name, _head(folder, name, info), place.kind if place else None):
            if self._targets.has(folder, name, info):
                account.known[TARGETS] += 1
            else:
                self._unread(folder.path(name), "belongs to no entry that is known")
        else:
            account.foreign.add(printable(folder.path(name)))

    def _seen(self, folder: Folder, name: str, info: os.stat_result) -> None:
        self._result.files += 1
        self._result.bytes += info.st_size
        self._attributes(folder, name, info)

    def _blamed(self, folder: Folder, name: str, judge: EntryJudge, info: os.stat_result) -> bool:
        """Return whether an entry is blamed for what is no regular file in its place."""
        try:
            with reported(self._ledger):
                return judge.no_file(folder, name, info)
        except ChangedWhileRead as error:
            self._result.changed.add(str(error))
        return True

    def _no_file(
        self, folder: Folder, name: str, judge: EntryJudge | None, place: CachePlace | None
    ) -> None:
        """Judge a link, pipe, socket or device."""
        path, account = folder.path(name), self._result.account
        try:
            info = folder.look(name)
        except CannotRead as error:
            account.unread.add(str(error))
            return
        if info is None:
            self._result.changed.add(f"{path} went away")
            return
        kind = "a link" if folder.is_link(name) else kind_of(info)
        if place is None or isinstance(judge, Scratch):
            self._beside.no_file(folder, name, kind)
            return
        if kind == "a link" and self._beside.leads_inside(folder, name):
            account.known[INSIDE] += 1
        else:
            self._unread(path, f"is {kind}")
            if judge is not None and self._blamed(folder, name, judge, info):
                return
        self._no_plain(folder, name, kind, is_needed=False)

    def _attributes(self, folder: Folder, name: str, info: os.stat_result) -> None:
        what, size = ("the file", info.st_size) if name else ("the directory", 0)
        self._closed += bool(name) and not info.st_mode & 0o444
        if detail := _open_to_all(info, what):
            self._ledger.add(Check.PRIVATE_MODES, _path(folder, name), detail, size)
        self._owners.add(folder.relative, _path(folder, name), info.st_uid)


def _head(folder: Folder, name: str, info: os.stat_result) -> bytes:
    try:
        with folder.opened(name, info) as descriptor:
            return os.pread(descriptor, 20, 0)
    except (CannotRead, ChangedWhileRead):
        return b""


def _open_to_all(info: os.stat_result, what: str) -> str:
    """Return what is wrong with the mode of something that all users may write; empty if they may
    not."""
    mode = stat.S_IMODE(info.st_mode)
    return f"{what} has mode {mode:04o}: everybody can put code into it" if mode & 2 else ""


def _path(folder: Folder, name: str) -> str:
    return folder.path(name) if name else folder.relative or "."
