"""Entries of chosen sizes and ages, for checks of limits and aging.

Objects have no content, and disk space only where a toolchain may count it. Ages are set through
file times, never waited for, right before a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import pytest

from pytest_ascendcache.caches import Entry, Snapshot, keep_access_time_of
from pytest_ascendcache.conformance.kit.judge import aging_facts
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.told import differs, require_none
from pytest_ascendcache.contract import (
    AgedEntry,
    Aging,
    CacheLimits,
    CacheMode,
    expected_aging,
    expected_limits,
)
from pytest_ascendcache.contract.aging import (
    ENV_RATIO,
    ENV_SIZE,
    HALF_AN_HOUR,
    INI_RATIO,
    INI_SIZE,
    MEGABYTE,
)
from pytest_ascendcache.contract.facts import Subject, SubjectKind
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.gate import behind
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain

KILOBYTE = 1024
HOUR = 3600.0
_BLOCK = 4096
_newcomers = count(1009)
"""Extents that no other operator has."""
_HEAD = b"\x7fELF, an entry nobody asks for"
HUNDREDS = tuple(chr(0x4E00 + number) for number in range(300))
"""Names of 300 entries, of one character each."""
ORPHANS = ("object-alone", "metadata-alone", "unreadable-metadata", "temporary", "pre-compile")
"""Kinds of files in a cache that are no complete entry."""


class Shelf:
    """Named entries in one chip's directory, next to those of real operators."""

    def __init__(self, cache: CacheUnderTest, soc: str | None = None) -> None:
        self.soc = soc or cache.options.soc
        self._directory = cache.layout.soc(self.soc)
        self._prefix = f"{self._directory.relative_to(cache.root)}/"
        self._cache = cache
        self._laid: dict[str, tuple[int, float]] = {}  # name -> bytes, seconds idle
        self._space: dict[str, int] = {}  # name -> bytes of disk space
        self._block = _BLOCK
        self._since = time.time()
        self._on_the_mount = False
        cache.drop_own_limits()

    def lay(
        self, names: Iterable[str], size: int, *hours: float, holes: bool | None = None
    ) -> Shelf:
        """Add an entry of ``size`` bytes for each name, last accessed this many hours ago.
        Modification times are in reverse order, unless uses are dated by them. Objects are
        ``holes``, by default if those count."""
        holes, dated = habits_of(self._cache) if holes is None else (holes, False)
        self._directory.mkdir(parents=True, exist_ok=True)
        for number, (name, ago) in enumerate(zip(names, hours, strict=True)):
            entry = self.entry(name)
            object_size = size - len(_metadata(entry.stem, "0" * 64))
            for path in self._files(name):
                path.chmod(0o640)  # laid before
            entry.metadata_path.write_text(_metadata(entry.stem, _digest_for(object_size)))
            _write_object(entry.object_path, object_size, holes)
            for path in (entry.object_path, entry.metadata_path):
                path.chmod(0o440 if number % 2 else 0o640)  # who owns it may remove either
                rest(path, ago * HOUR, modified=time.time() - (ago if dated else 1000 - ago) * HOUR)
            self._laid[name] = (size, ago * HOUR)
            self._block = _space_of(entry.metadata_path) or _BLOCK
            space = _on_disk(object_size, self._block) if holes else _space_of(entry.object_path)
            self._space[name] = space + self._block
        return self

    def orphan(self, name: str, kind: str, size: int, hours: float) -> tuple[Path, ...]:
        """Leave ``size`` bytes that are no complete entry, of a kind in :data:`ORPHANS`, in these
        files."""
        self.lay(name, size, hours)
        del self._laid[name]
        entry = self.entry(name)
        if kind == "object-alone":
            entry.metadata_path.unlink()
            return (entry.object_path,)
        if kind == "unreadable-metadata":
            entry.metadata_path.write_bytes(b"\x7fnot json")
            rest(entry.metadata_path, hours * HOUR)
            return (entry.metadata_path, entry.object_path)
        text = entry.metadata_path.read_bytes()
        entry.metadata_path.unlink()
        entry.object_path.unlink()
        path = {
            "metadata-alone": entry.metadata_path,
            "temporary": entry.object_path.with_name(f"{entry.object_path.name}_4711_815_42.temp"),
            "pre-compile": entry.directory / f"{entry.stem}_pre.json",
        }[kind]
        if kind == "pre-compile":
            text = json.dumps({"pattern": "Opaque", "coreType": "AiCore"}).encode()
        path.write_bytes(text.ljust(size))
        rest(path, hours * HOUR)
        return (path,)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._laid)

    def on_the_mount(self) -> None:
        """Let the mount keep access times of these entries, even if their directory has noatime."""
        self._on_the_mount = True
        for name in self._laid:
            for path in self._files(name):
                keep_access_time_of(path, keep=True)

    def resting(self) -> dict[Path, int]:
        """Access times of the files of idle entries, in whole seconds, if the mount keeps them."""
        idle = [name for name, (_, ago) in self._laid.items() if ago > HALF_AN_HOUR]
        paths = [path for name in idle for path in self._files(name)] if self._on_the_mount else []
        return {path: int(path.stat().st_atime) for path in paths}

    def renewed(self, names: Iterable[str]) -> bool:
        """Whether the mount renewed the access time of each of these entries since it was laid."""
        return self._on_the_mount and all(
            any(path.stat().st_atime >= self._since for path in self._files(name)) for name in names
        )

    def _files(self, name: str) -> list[Path]:
        entry = self.entry(name)
        return [path for path in (entry.metadata_path, entry.object_path) if path.exists()]

    def rest(self) -> None:
        """Set the ages again, of the files that are left."""
        for name, (_, ago) in self._laid.items():
            for path in self._directory.glob(f"{self.entry(name).stem}*"):
                rest(path, ago)

    def entry(self, name: str) -> Entry:
        """The entry of a name. Its stem has the form that CANN gives stems."""
        return Entry(f"te_shelf_{hashlib.sha256(name.encode()).hexdigest()}", self._directory)

    def there(self, name: str) -> list[bool]:
        """Whether the metadata and the object exist."""
        entry = self.entry(name)
        return [entry.metadata_path.exists(), entry.object_path.exists()]

    def gone(self) -> str:
        """Names of the entries that lack a file or both, in order."""
        return "".join(self._gone())

    def _gone(self) -> list[str]:
        return [name for name in sorted(self._laid) if not all(self.there(name))]

    def torn(self) -> str:
        """Names of the entries that have lost exactly one file."""
        return "".join(name for name in sorted(self._laid) if sorted(self.there(name)) == [0, 1])

    def aged(self, run: Run, limits: CacheLimits) -> tuple[Aging, frozenset[str]]:
        """What has to be gone after a run that uses the cache, and what is: see :meth:`expected`
        and :meth:`let_store`. What is wrong is to be :func:`dated`."""
        due = self.expected(run, limits)
        self._let_age(run, due.must_go)
        return due, frozenset(self._gone())

    def let_store(self, run: Run, due: Iterable[str]) -> None:
        """If none of the entries that are ``due`` went in a run that stored nothing, make the run
        again with an operator that is new: no document says that a run ages which only reuses."""
        self._let_age(run, due)
        self.needs_file_times(due)

    def _let_age(self, run: Run, due: Iterable[str]) -> None:
        new = run.after.files.keys() - run.before.files.keys()
        stored = any(path.endswith(".o") for path in new)
        if due and not stored and not {*due} & {*self._gone()}:
            request, output = run.result.request, self._cache.new_output()
            operators = (*request.operators, newcomer())
            self._cache.again(replace(request, operators=operators, output=output))
        if due and not {*due} & {*self._gone()} and not self.are_taken():
            raise NotDecidable(NOT_TAKEN)

    def needs_file_times(self, due: Iterable[str], stay: Iterable[str] = ()) -> None:
        """Raise NotDecidable if other entries are gone than are ``due``: see :func:`dated`."""
        if not Aging(frozenset(due), frozenset(stay)).allows(self._gone()):
            dated(self._cache, [WRITES_USES])

    def are_taken(self) -> bool:
        """Whether entries that are laid are its own to the toolchain, and not other people's files,
        as where it keeps a list: force then removes its entry and leaves what lies beside it. That
        is found out once, before a toolchain is accused of leaving them."""
        return _remembered(_TAKEN, self._cache, _is_taken)

    def expected(self, run: Run, limits: CacheLimits, without: int = 0) -> Aging:
        """Which entries must be gone after a run, and which must stay, ``without`` the bytes of
        other files. Those that become idle meanwhile may do either. Raises ``NotDecidable`` if what
        is gone is right by disk space that entries lack."""
        entries = [AgedEntry(name, size, idle) for name, (size, idle) in self._laid.items()]
        edition = self._cache.edition
        by_size = expected_aging(entries, self._own(run) - without, limits, edition)
        # The document's "磁盘空间" may be the blocks that files take.
        blocks = [replace(each, size=self._space[each.name]) for each in entries]
        other = bytes_of(run.before, self._prefix, self._block)
        other -= sum(_on_disk(each.size, self._block) for each in entries)
        by_space = expected_aging(blocks, max(0, other) - without, limits, edition)
        took = time.time() - self._since + 1
        meanwhile = {each.name for each in entries if each.idle <= HALF_AN_HOUR < each.idle + took}
        by_size, by_space = (
            replace(each, must_stay=each.must_stay - meanwhile) for each in (by_size, by_space)
        )
        if all(self._space[each.name] >= each.size for each in entries):
            return by_size.where_both(by_space)
        if not by_size.allows(self._gone()) and by_space.allows(self._gone()):
            raise NotDecidable("entries have no disk space here, which a toolchain may count")
        return by_size

    def _own(self, run: Run) -> int:
        """Bytes in the chip's directory before the run that are not the shelf's."""
        return bytes_of(run.before, self._prefix) - sum(size for size, _ in self._laid.values())

    def check(self, run: Run, limits: CacheLimits, goes: str) -> None:
        """Assert that a run aged what the document says, which is ``goes``. Raises NotDecidable if
        the toolchain's own entries are too large for the arithmetic of the check."""
        expected = self.expected(run, limits)
        any_may_go = not self._cache.edition.idle
        if not expected.allows(goes) or not (any_may_go or expected.must_go == set(goes)):
            own = self._own(run)
            raise NotDecidable(
                f"{own} bytes of the toolchain's own are too many beside {len(self._laid)} entries"
            )
        self.let_store(run, expected.must_go)
        gone = self.gone()
        if {*gone} != {*goes} and expected.allows(gone) and not any_may_go and not self.torn():
            raise NotDecidable(f"{gone or 'none'} gone is right by another reading of the limit")
        self.compare(goes, self.limiting(run, limits))

    def limiting(self, run: Run, limits: CacheLimits | None = None) -> Subject:
        """What sets the limits of a run: ``op_cache.ini`` or a variable, that of the ratio if
        entries are gone as if only this were not the one of ``limits``, but the default."""
        edition, path = self._cache.edition, ini_path(self._cache)
        text = path.read_text(errors="replace") if path.exists() else ""
        size, ratio = edition.variables[:2]
        if edition.ini and all(key in text for key in edition.ini):
            asked = run.result.request.environment
            others = expected_limits(None, asked, edition)
            won = size in asked and self.gone() and self.expected(run, others).allows(self._gone())
            return Subject(SubjectKind.FILE, f"op_cache.ini over {size}" if won else "op_cache.ini")
        if limits is not None and limits.ratio != CacheLimits().ratio:
            default = self.expected(run, replace(limits, ratio=CacheLimits().ratio))
            if self.gone() and default.allows(self._gone()):
                value = run.result.request.environment.get(ratio, "")
                return Subject(SubjectKind.VARIABLE, ratio, value)
        value = run.result.request.environment.get(size, "")
        return Subject(SubjectKind.VARIABLE, size, value)

    def ages(self, operator: OperatorSpec, size: int, ratio: int, goes: str) -> None:
        """Compile an operator under these limits, in MB and percent, and :meth:`check` the run."""
        limits = environment(size, ratio)
        run = self._cache.compile(operator, mode=CacheMode.ENABLE, environment=limits)
        self.check(run, CacheLimits(size, ratio), goes)

    def compare(self, goes: str, subject: Subject | None = None) -> None:
        """Assert that exactly these entries, with both files, are gone by limits of ``subject``."""
        gone, evidence = self.gone(), self._cache.evidence
        ages = ", ".join(f"{name}: {idle:.0f} s" for name, (_, idle) in self._laid.items())
        if not self._cache.edition.idle and len(gone) == len(goes):
            # This edition does not say which entries are old; all are of one size, so only the
            # number of those gone counts.
            goes = gone
        due = Aging(frozenset(goes), self.names - {*goes})
        self.needs_file_times(due.must_go, due.must_stay)
        difference = differs(f"{gone or 'none'} gone", f"{goes or 'none'} gone")
        detail = f"aged entries differ\n{difference}\nidle before the run: {ages}"
        number = len(evidence.steps)
        require_none(
            aging_facts(due, gone, self.torn(), detail, subject=subject, run=number), evidence
        )


NOT_TAKEN = (
    "force removes the toolchain's own entries and leaves those that were laid beside them: it "
    "does not take them for its own"
)
WRITES_USES = (
    "the toolchain writes down when its entries are used, and times of files need not count"
)


class AgingHabits(NamedTuple):
    """What no document says. ``counts_holes``: entries that are holes age by their sizes.
    ``dates_uses``: a reuse sets the modification times of an entry."""

    counts_holes: bool
    dates_uses: bool


_Answer = TypeVar("_Answer")
_TAKEN = WeakKeyDictionary[Toolchain, bool]()
_WRITES_USES = WeakKeyDictionary[Toolchain, bool]()
_HABITS = WeakKeyDictionary[Toolchain, AgingHabits]()


def _remembered(
    known: WeakKeyDictionary[Toolchain, _Answer],
    cache: CacheUnderTest,
    ask: Callable[[CacheUnderTest], _Answer],
) -> _Answer:
    """What is found out once about a toolchain."""
    toolchain = behind(cache.toolchain)
    if toolchain not in known:
        known[toolchain] = ask(cache)
    return known[toolchain]


def habits_of(cache: CacheUnderTest) -> AgingHabits:
    """How a toolchain counts and dates entries, which is found out once: files of hundreds of
    megabytes take their time to get disk space, and many caches set modification times."""
    return _remembered(_HABITS, cache, _habits)


def _habits(cache: CacheUnderTest) -> AgingHabits:
    elsewhere, one = cache.elsewhere(cache.new_output() / "habits"), newcomer()
    cache.run_alone(elsewhere.request(one, mode=CacheMode.ENABLE))
    used = [path for path in elsewhere.layout.soc(cache.options.soc).glob("*") if path.is_file()]
    for path in used:
        rest(path, 600, modified=time.time() - 600)
    shelf = Shelf(elsewhere).lay("abcd", MEGABYTE - KILOBYTE, 5, 4, 3, 2, holes=True)
    limits = environment(3, 80)
    both = elsewhere.request(one, newcomer(), mode=CacheMode.ENABLE, environment=limits)
    cache.run_alone(both)
    others = [shelf.entry(name).object_path for name in shelf.names if all(shelf.there(name))]
    dates = _is_new(path for path in used if path.suffix in (".o", ".json"))
    return AgingHabits(len(shelf.gone()) == 2, dates and not _is_new(others))


def _is_new(paths: Iterable[Path]) -> bool:
    """Whether one of these was changed in the last minutes."""
    return any(path.stat().st_mtime > time.time() - 300 for path in paths)


def _writes_uses(cache: CacheUnderTest) -> bool:
    """Whether a reuse writes anything but times of files."""
    elsewhere = cache.elsewhere(cache.new_output() / "uses")
    requests = [elsewhere.request(newcomer(), mode=CacheMode.ENABLE)]
    requests.append(replace(requests[0], output=cache.new_output()))
    contents = []
    for request in requests:
        cache.run_alone(request)
        files = filter(Path.is_file, elsewhere.root.rglob("*"))
        contents.append({path: path.read_bytes() for path in files})
    return bool(contents[0].items() ^ contents[1].items())


def dated(cache: CacheUnderTest, wrong: list[Any]) -> list[Any]:
    """What is wrong with the entries that aged. Raises NotDecidable if something is, and the
    toolchain writes down when entries are used: there it has no word of those that were laid."""
    if bool(wrong) and _remembered(_WRITES_USES, cache, _writes_uses):
        raise NotDecidable(WRITES_USES)
    return wrong


def _is_taken(cache: CacheUnderTest) -> bool:
    """Whether force removes an entry that is laid, or leaves the toolchain's own as well."""
    elsewhere = cache.elsewhere(cache.new_output() / "taken")
    elsewhere.marks = False
    elsewhere.attempt(newcomer(), mode=CacheMode.ENABLE)
    own = [each.object_path for each in elsewhere.entries().values()]
    shelf = Shelf(elsewhere).lay("a", MEGABYTE, 0.0)
    elsewhere.attempt(newcomer(), mode=CacheMode.FORCE)
    return not own or any(map(Path.exists, own)) or not all(shelf.there("a"))


def newcomer() -> OperatorSpec:
    """An operator that no run compiled before."""
    shape = 3, next(_newcomers)
    return operator_of("Add", shape, shape, name="newcomer")


def _space_of(path: Path) -> int:
    """The bytes of disk space that a file takes."""
    return path.stat().st_blocks * 512


def _on_disk(size: int, block: int = _BLOCK) -> int:
    """The bytes of the blocks that a file of this size takes."""
    return -(-size // block) * block


def rest(path: Path, seconds: float, modified: float | None = None) -> None:
    """Set a file's last access to this many seconds ago (negative: in the future). It was not
    ``modified`` after that: nobody may write a file and count as not having used it."""
    if modified is None:
        modified = path.stat().st_mtime
    used = time.time() - seconds
    os.utime(path, (used, min(used, modified)))


def rest_entry(cache: CacheUnderTest, entry: Entry, seconds: float) -> None:
    """Set the last access of all files of an entry to this many seconds ago, and their
    modification to long before, unless the toolchain notes uses by it."""
    before = seconds if habits_of(cache).dates_uses else 1000 * HOUR
    for path in _files_of(entry):
        rest(path, seconds, modified=time.time() - before)


def accessed(cache: CacheUnderTest, entry: Entry) -> tuple[int, ...]:
    """Last access of metadata and object, in whole seconds, or modification where that notes uses;
    then the times of what a toolchain keeps beside an entry, which may record its uses."""
    own = entry.metadata_path, entry.object_path
    times = [path.stat().st_atime for path in own]
    if habits_of(cache).dates_uses:
        times = [max(path.stat().st_mtime, time) for path, time in zip(own, times, strict=True)]
    beside = [path.stat() for path in sorted(_files_of(entry) - {*own})]
    return tuple(map(int, [*times, *(max(each.st_atime, each.st_mtime) for each in beside)]))


def _files_of(entry: Entry) -> set[Path]:
    """Object, metadata, and what a toolchain keeps beside them: the names hold the entry's."""
    return {*entry.object_path.parent.glob(f"*{entry.object_path.stem}*")}


def bytes_of(snapshot: Snapshot, prefix: str, block: int = 1) -> int:
    """Bytes of the regular files below a directory, in blocks of so many bytes."""
    return sum(
        _on_disk(state.size, block)
        for path, state in snapshot.files.items()
        if path.startswith(prefix) and state.kind == "file"
    )


def environment(size: object = None, ratio: object = None) -> dict[str, str]:
    """The two variables for the limits, in MB and percent; ``None`` leaves one out."""
    return _given({ENV_SIZE: size, ENV_RATIO: ratio})


def ini_values(size: object = None, ratio: object = None) -> dict[str, str]:
    """The two values of ``op_cache.ini``, in MB and percent; ``None`` leaves one out."""
    return _given({INI_SIZE: size, INI_RATIO: ratio})


def _given(values: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def edit_ini(cache: CacheUnderTest, values: Mapping[str, str]) -> None:
    """Add values to the section of the generated ``op_cache.ini``, wherever the toolchain put it.

    ``values`` have the default edition's keys; the file gets those of the edition in force. The
    check is skipped if that edition has no such file.
    """
    if values and not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    cache.drop_own_limits()
    path = ini_path(cache)
    text = path.read_text() if path.exists() else "[op_compiler_cache]\n"
    lines = "".join(f"{key}={value}\n" for key, value in cache.edition.ini_values(values).items())
    path.write_text(f"{text.rstrip()}\n{lines}")


def ini_path(cache: CacheUnderTest) -> Path:
    """The ``op_cache.ini`` that the toolchain made, or a place for one."""
    candidates = cache.layout.ini_candidates
    return next(filter(Path.exists, candidates), candidates[-1])


def names_limit(output: str, name: str, value: str) -> bool:
    """Whether a line of the output names a limit and its whole value: 500 does not name 0."""
    whole = re.compile(rf"(?<![\w.+-]){re.escape(value)}(?!\.?\d)" if value else "")
    lines = output.splitlines()
    return any(name.lower() in line.lower() and whole.search(line) for line in lines)


def _write_object(path: Path, size: int, hole: bool) -> None:
    """Write an object, unless it still is there as it was written: disk space takes its time."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        state = os.fstat(file.fileno())
        untouched = state.st_size == size and state.st_mtime < time.time() - HOUR
        if untouched and file.read(len(_HEAD)) == _HEAD:
            return
        file.seek(0)
        file.truncate(0)
        file.write(_HEAD)
        file.truncate(size)
        if not hole:
            _allocate(file.fileno(), size)


def _allocate(descriptor: int, size: int) -> None:
    """Give a file its disk space, because a toolchain may count blocks, unless it would take more
    than a hundredth of what is free or of what is unknown to the system."""
    state = os.fstatvfs(descriptor)
    if 100 * size <= state.f_bavail * state.f_frsize:
        with suppress(OSError):
            os.posix_fallocate(descriptor, 0, size)


@lru_cache(maxsize=64)
def _digest_for(size: int) -> str:
    """Digest of an object of this many bytes: the head, then zeros."""
    digest = hashlib.sha256(_HEAD)
    zeros = bytes(MEGABYTE)
    for left in range(size - len(_HEAD), 0, -MEGABYTE):
        digest.update(zeros[:left])
    return digest.hexdigest()


def _metadata(stem: str, digest: str) -> str:
    fields = {
        "binFileName": stem,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "coreType": "AiCore",
        "kernelName": f"{stem}__kernel0",
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "sha256": digest,
    }
    return json.dumps(fields, indent=4, sort_keys=True)
