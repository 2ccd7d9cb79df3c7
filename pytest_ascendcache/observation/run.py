"""One observed run of the compiler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.caches import (
    Change,
    FileState,
    Snapshot,
    find_canaries,
)
from pytest_ascendcache.caches.entry import is_beside, sha256
from pytest_ascendcache.contract import CacheMode, Delivered, Fate, Outcome
from pytest_ascendcache.contract.facts import Subject, coded
from pytest_ascendcache.contract.subjects import ruling, unchecked
from pytest_ascendcache.observation.delivered_kernels import DeliveredKernels
from pytest_ascendcache.observation.evidence import CacheSize, NotDecidable
from pytest_ascendcache.operators import OperatorSpec

_ENTRY = re.compile(r"(?:lib)?te_.*|op_cache\.ini")
_INI = "op_cache.ini"


@dataclass(frozen=True, repr=False)
class Run(DeliveredKernels):
    """What one process delivered and did to the cache.

    ``run[operator]`` is the operator's :class:`Outcome`. ``before`` and ``after`` are snapshots of
    the cache directory. ``marked`` has the canaries by token, or is None if the toolchain does not
    serve marked entries. ``known`` names the entries of operators that the cache was warmed with.
    ``born`` are the birthmarks delivered before this run, if the toolchain stamps them
    (``Toolchain.birthmarks``). ``reads_entries``: entries have the form that is known here.
    ``watched``: snapshots were taken."""

    prefix: str
    born: frozenset[str] | None = None
    reads_entries: bool = True
    watched: bool = True

    def __repr__(self) -> str:
        mode = self.result.request.options.effective_mode.value
        return f"<run under {mode} of {', '.join(map(str, self.operators))}>"

    def sizes(self, number: int) -> list[CacheSize]:
        """The cache's size before and after this run; empty if the cache never held anything."""
        before, after = _entries(self.before), _entries(self.after)
        if not before and not after:
            return []
        return [
            CacheSize(
                run=number,
                before=_bytes(self.before),
                after=_bytes(self.after),
                entries=len(after),
                removed=len(before - after),
            )
        ]

    def served_from(self, operator: OperatorSpec) -> frozenset[str]:
        """Stems of the entries whose canary the delivered kernel carries. Raises ``NotDecidable``
        if entries have no canary, so that its absence tells nothing."""
        served = self._carried(operator)
        if not served and self.marked is None and (not self.watched or _has_entries(self.before)):
            raise NotDecidable(
                f"{operator}: this toolchain does not serve marked entries, so nothing tells "
                "whether the kernel is one that was cached"
            )
        return served

    def __getitem__(self, operator: OperatorSpec) -> Outcome:
        """The operator's outcome: where its kernel came from, and the fate of its entry. Raises
        ``NotDecidable`` if neither canaries nor files can tell."""
        self._check(operator)
        if self.born is not None:
            raise NotDecidable(
                f"{operator}: {self.delivered(operator).value}; what became of its entry is not "
                "known in a cache of another kind"
            )
        served = self._carried(operator)
        fate = self.fate(operator)
        if fate is Fate.ABSENT and not self.reads_entries and _fills(self.after, self._directory):
            raise NotDecidable(f"{operator}: what is stored has a form of its own")
        if served:
            return Outcome(Delivered.REUSED, fate)
        if self.marked is None and _has_entries(self.before) and not self._wrote(operator, fate):
            raise NotDecidable(
                f"{operator}: this toolchain does not serve marked entries, and nothing on disk "
                "tells a reuse from a compile"
            )
        if not self._wrote(operator, fate) and self._is_among(operator, self._servable):
            raise NotDecidable(
                f"{operator}: an unmarked entry was served, or an equal kernel compiled again"
            )
        return Outcome(Delivered.COMPILED, fate)

    def delivered(self, operator: OperatorSpec) -> Delivered:
        """Where the delivered kernel came from, whatever the fate of its entry. Raises
        ``NotDecidable`` if that cannot be told."""
        if self.born is None:
            return self[operator].delivered
        tokens = find_canaries(self.model(operator).read_bytes())
        if not tokens:
            raise NotDecidable(f"{operator}: the delivered kernel carries no birthmark")
        return Delivered.REUSED if tokens <= self.born else Delivered.COMPILED

    def fate(self, operator: OperatorSpec) -> Fate:
        """The fate of the operator's entry."""
        self._check(operator)
        stem = self.stem(operator)
        if stem is None:
            return Fate.ABSENT
        fate, known = self.fate_of(f"{self._directory}{stem}"), self.known.get(operator, stem)
        if stem != known and self.fate_of(f"{self._directory}{known}") is Fate.REMOVED:
            return Fate.REWRITTEN  # under another name
        return fate

    def stem(self, operator: OperatorSpec) -> str | None:
        """The operator's entry: a known one, or a new one that holds the delivered kernel. That is
        so, too, if what the key has besides options changed: then the known one is left alone."""
        self._check(operator)
        if operator in self.known:
            known = self.known[operator]
            touched = self.fate_of(f"{self._directory}{known}") in (Fate.STORED, Fate.REWRITTEN)
            return known if touched else self._stored_instead(operator) or known
        served = self._carried(operator)
        if len(served) == 1:
            return next(iter(served))
        digest = sha256(self.kernel_as_delivered(operator))
        stems = [
            self._stem_of(path)
            for path, state in self.after.files.items()
            if state.sha256 == digest and path.startswith(self._directory)
        ]
        if stems:
            return stems[0]
        fresh = self.new_stems(operator.type)
        return fresh[0] if fresh else None

    def _stored_instead(self, operator: OperatorSpec) -> str | None:
        """A new entry of a name that no operator has, which holds the delivered kernel."""
        digests = {sha256(each) for each in self.kernels(operator)} if self._added else set[str]()
        return next((self._added[each] for each in digests if each in self._added), None)

    @cached_property
    def _added(self) -> Mapping[str, str]:
        """Stems of new whole entries by the digests of their objects."""
        return {
            self.after.files[path].sha256: self._stem_of(path)
            for path, change in self.changes.items()
            if change is Change.ADDED
            and path.startswith(self._directory)
            and path.endswith(".o")
            and self.changes.get(f"{path.removesuffix('.o')}.json") is Change.ADDED
            and self._stem_of(path) not in self.known.values()
        }

    def _stem_of(self, path: str) -> str:
        """The stem of an entry's file: its path below the chip's directory, without the suffix."""
        return path.removeprefix(self._directory).rpartition(".")[0]

    def new_stems(self, operator_type: str = "") -> list[str]:
        """Entries added by this run, of one operator type or of all."""
        wanted = f"te_{operator_type.lower()}_" if operator_type else "te_"
        added = [
            path
            for path, change in self.changes.items()
            if change is Change.ADDED
            and path.startswith(self._directory)
            and Path(path).name.startswith(wanted)
            and path.endswith((".json", ".o"))
        ]
        stems = Counter(map(self._stem_of, added))
        whole = {each for each, files in stems.items() if files > 1}
        return sorted(each for each in stems if not is_beside(each, whole))

    def fate_of(self, base: str) -> Fate:
        """The fate of the pair ``<base>.json`` and ``<base>.o``."""
        pair = (f"{base}.json", f"{base}.o")
        before = [self.before.files.get(path) for path in pair]
        after = [self.after.files.get(path) for path in pair]
        if not any(after):
            return Fate.REMOVED if any(before) else Fate.ABSENT
        if not any(before):
            return Fate.STORED
        kept = all(_is_kept(old, new) for old, new in zip(before, after, strict=True))
        if kept and self._is_forced(base) and not all(map(_same_time, before, after)):
            return Fate.REWRITTEN  # with the same bytes
        return Fate.KEPT if kept else Fate.REWRITTEN

    def _is_forced(self, base: str) -> bool:
        """Whether the entry may have been written again unseen: it has no marker that a new object
        would lack."""
        marked = {each.stem for each in (self.marked or {}).values()}
        mode = self.result.request.options.effective_mode
        return mode is CacheMode.FORCE and base.removeprefix(self._directory) not in marked

    @property
    def entry_changes(self) -> dict[str, Change]:
        """What was written or removed of entries and ``op_cache.ini``, and whatever was removed. A
        toolchain's own files may come and change at any time, ``op_cache.ini`` may come."""
        return {
            path: change
            for path, change in self.written.items()
            if change is Change.REMOVED
            or (_is_of_entry(path, self.before) and not _is_made(path, change))
        }

    @property
    def inert_changes(self) -> dict[str, Change]:
        """What a run that must not use the cache added, or changed of entries, times included. A
        toolchain's own files that were there, such as locks, may change."""
        entries = {path for path in self.changes if _is_of_entry(path, self.before)}
        seen = {path: self.changes[path] for path in entries if not path.endswith(_INI)}
        return self.storing_changes | seen

    @property
    def storing_changes(self) -> dict[str, Change]:
        """What a run that must store nothing wrote: entries, and any new file but the ini."""
        return self.entry_changes | _new_files(self.written)

    def _wrote(self, operator: OperatorSpec, fate: Fate) -> bool:
        """Whether the delivered kernel was written to the cache, which means it was compiled."""
        return self._is_among(operator, self._written) or fate in (Fate.STORED, Fate.REWRITTEN)

    @cached_property
    def _written(self) -> Set[str]:
        """Digests of the files written to the cache."""
        kinds = (Change.ADDED, Change.REPLACED, Change.CHANGED)
        return {
            self.after.files[path].sha256
            for path, change in self.changes.items()
            if change in kinds
        }

    @property
    def _directory(self) -> str:
        """The chip's directory, as a prefix of the paths in snapshots."""
        return f"{self.prefix}{self.result.request.options.soc}/"

    @cached_property
    def _servable(self) -> Set[str]:
        """Digests of the objects that lay in the chip's directory before, in usable entries."""
        return {
            state.sha256
            for path, state in self.before.files.items()
            if path.startswith(self._directory)
            and path.endswith(".o")
            and f"{path.removesuffix('.o')}.json" in self.before.files
        }

    @cached_property
    def _outcomes(self) -> tuple[Outcome | str, ...]:
        """The outcome of each operator, or why it cannot be told."""
        found: list[Outcome | str] = []
        for operator in self.operators:
            try:
                found.append(self[operator])
            except (NotDecidable, OSError) as reason:
                found.append(str(reason))
        return tuple(found)

    @property
    def subject(self) -> Subject:
        request = self.result.request
        debug_file = None if request.debug_file is None else str(request.debug_file)
        given = {"op_debug_config": debug_file, "op_compiler_cache_mode": request.raw_mode}
        return unchecked({**request.raw_options, **given}) or ruling(request.options)

    def describe(self) -> tuple[str, ...]:
        pairs = zip(self.operators, self._outcomes, strict=True)
        return tuple(f"{operator}: {outcome}" for operator, outcome in pairs)

    def codes(self) -> tuple[str, ...]:
        return tuple("" if isinstance(each, str) else coded(each) for each in self._outcomes)


def _new_files(written: Mapping[str, Change]) -> dict[str, Change]:
    added = {path: each for path, each in written.items() if each is Change.ADDED}
    return {path: each for path, each in added.items() if not _is_made(path, each)}


def _is_of_entry(path: str, before: Snapshot) -> bool:
    """Whether a file is one of an entry, or ``op_cache.ini``: by its name, or because object and
    metadata of one name were there before."""
    stem = path.rpartition(".")[0]
    pair = {f"{stem}.o", f"{stem}.json"}
    has_partner = path in pair and pair <= before.files.keys()
    return has_partner or bool(_ENTRY.fullmatch(path.rpartition("/")[2]))


def _is_made(path: str, change: Change) -> bool:
    return change is Change.ADDED and path.endswith(_INI)


def _entries(snapshot: Snapshot) -> set[str]:
    """The metadata files of the entries."""
    return {
        path
        for path, state in snapshot.files.items()
        if state.kind == "file" and path.endswith(".json") and "/te_" in path
    }


def _has_entries(snapshot: Snapshot) -> bool:
    return any(path.endswith(".json") for path in snapshot.files)


def _fills(snapshot: Snapshot, directory: str) -> bool:
    """Whether files with a content lie in a directory."""
    return any(each.size for path, each in snapshot.files.items() if path.startswith(directory))


def _bytes(snapshot: Snapshot) -> int:
    return sum(each.size for each in snapshot.files.values() if each.kind == "file")


def _is_kept(before: FileState | None, after: FileState | None) -> bool:
    """Whether a file is the same, with the same bytes. A modification time that moved is no
    rewrite (contract, *Freedom*)."""
    if before is None or after is None:
        return before is after
    return (before.inode, before.sha256) == (after.inode, after.sha256)


def _same_time(before: FileState | None, after: FileState | None) -> bool:
    """Whether a modification time did not move. It may be cut to whole seconds."""
    if before is None or after is None:
        return before is after
    return after.mtime_ns in (before.mtime_ns, before.mtime_ns // 10**9 * 10**9)
