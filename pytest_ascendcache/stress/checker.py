"""Judges a history, and nothing but the history (rule robust/stress).

It does not judge whether a kernel is reused or compiled: the documents leave that open while other
processes use the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.stress.history import (
    SHARED,
    CacheSeen,
    Compile,
    Doing,
    EntrySeen,
    Header,
    JobEnd,
    LaterCompiles,
    RankDelivery,
    Rebuilt,
    RoundRecord,
    Seen,
    StressHistory,
    StressJob,
)


class Kind(str, Enum):
    """The kinds of broken promises."""

    WRONG_KERNEL = "wrong kernel"
    NO_KERNEL = "no kernel"
    MIXED_ENTRY = "mixed entry"
    RESIDUE = "residue"
    FOREIGN_DIRECTORY = "directory of another"
    POISON = "entry that cannot be used any more"
    NO_OUTPUT = "no output"
    PACKAGE = "package lost or left"
    INDEX = "index of something else"


@dataclass(frozen=True)
class Violation:
    """One broken promise, and its round."""

    kind: Kind
    round: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind.value} in round {self.round}: {self.text}"


class Undecided(Exception):
    """The history does not say enough to judge it."""


def violations(history: StressHistory) -> list[Violation]:
    """All broken promises, in order. Raises ``Undecided`` if a process did not end, or a round
    other than the last is incomplete."""
    return violations_of(history.header, history.rounds)


def violations_of(header: Header, records: Iterable[RoundRecord]) -> list[Violation]:
    """Like :func:`violations`, for rounds that need not be in memory together."""
    checker, before = Checker(header), None
    for record in records:
        if before is not None and not before.is_whole:
            raise Undecided(f"round {before.round.number} of the history is not whole")
        checker.take(record)
        before = record
    return checker.violations


_LOCKS_HOLD = (NodeProfile.LOCAL, NodeProfile.ONE_MOUNT)
"""Profiles on which all writers see each other's locks and files."""


@dataclass
class _Cache:
    """What is excused in a cache: entries ``broken`` for a known reason, those of them that the
    harness ``damaged``, and names of ``residue``."""

    broken: set[EntrySeen] = field(default_factory=set)
    damaged: set[EntrySeen] = field(default_factory=set)
    residue: set[str] = field(default_factory=set)


def _changes(job: StressJob, package: int | None = None) -> bool:
    """Whether a job installs or uninstalls ``package``, or any package if it is None."""
    return job.doing in (Doing.INSTALL, Doing.UNINSTALL) and package in (None, job.number)


class Checker:
    """Judges round after round, and collects broken promises in ``violations``."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._locks_hold = NodeProfile(header.profile) in _LOCKS_HOLD
        self._caches: dict[str, _Cache] = {}
        self._stems: dict[str, str] = {}
        self._installed: frozenset[int] = frozenset()
        self._index: set[str] = set()
        self._types = {
            digest: header.operators[number].rpartition("_")[0]
            for digests in header.right.values()
            for number, digest in enumerate(digests)
        }
        self.violations: list[Violation] = []

    def take(self, record: RoundRecord) -> None:
        """Judge the next round."""
        number = record.round.number
        compiles = {each.rank: each for each in record.round.compiles}
        for cache in record.disturbed.caches if record.disturbed else ():
            # The harness has broken these on purpose.
            self._excuse(cache)
            self._cache(cache.cache).damaged.update(each for each in cache.entries if each.problems)
        killed = set()
        for delivery in record.deliveries:
            compile_ = compiles[delivery.rank]
            if delivery.killed:
                killed.add(compile_.cache)
            self._delivered(number, compile_, delivery)
        for ended in record.ended:
            self._ended(number, record.round.jobs, ended)
        if record.seen is None:
            return
        self._packages(record, record.seen)
        for cache in record.seen.caches:
            if cache.cache in killed or (cache.cache == SHARED and not self._locks_hold):
                # A killed process may leave half an entry, and so may writers on nodes that do not
                # see each other's locks. No compile may reuse one.
                self._excuse(cache)
            self._entries(number, cache)
        self._touched(record)
        if record.round.later is not None and record.later is not None:
            self._later(record.round.later, record.later, record.seen.caches)
        if record.round.rebuild is not None and record.rebuilt is not None:
            self._rebuilt(record.round.rebuild, record.rebuilt)

    def _cache(self, name: str) -> _Cache:
        return self._caches.setdefault(name, _Cache())

    def _excuse(self, seen: CacheSeen) -> None:
        known = self._cache(seen.cache)
        known.broken.update(each for each in seen.entries if each.problems)
        known.residue.update(seen.residue)

    def _add(self, kind: Kind, number: int, text: str) -> None:
        self.violations.append(Violation(kind, number, text))

    def _delivered(self, number: int, compile_: Compile, delivery: RankDelivery) -> None:
        who = f"rank {delivery.rank} under {compile_.mode.value}"
        if delivery.returncode is None:
            raise Undecided(f"round {number}: the compile of rank {delivery.rank} did not end")
        if delivery.killed:
            return
        if delivery.returncode != 0 or "" in delivery.kernels:
            said = f": {delivery.said}" if delivery.said else ""
            self._add(Kind.NO_KERNEL, number, f"{who} ended with {delivery.returncode}{said}")
            return
        for operator, kernel in zip(compile_.operators, delivery.kernels, strict=True):
            right = self._header.kernel(compile_.setting, operator)
            if kernel != right:
                name = self._header.operators[operator]
                whose, right = self._whose(kernel), right[:12]
                wrong = f"{who} got {kernel[:12]} for {name}, {whose}; right is {right}"
                self._add(Kind.WRONG_KERNEL, number, wrong)

    def _later(self, compile_: Compile, later: LaterCompiles, caches: Sequence[CacheSeen]) -> None:
        """Judge a compile that ran alone. Whether it repairs an entry that the harness damaged, and
        that nothing touched since, is left to other rules."""
        ended = RankDelivery(later.round, compile_.rank, later.returncode, later.kernels)
        before = len(self.violations)
        self._delivered(later.round, compile_, ended)
        if len(self.violations) > before or self._header.profile == NodeProfile.NO_LOCKS.value:
            return
        damaged = {
            each.stem
            for cache in caches
            if cache.cache == compile_.cache
            for each in cache.entries
            if each in self._cache(cache.cache).damaged
        }
        for operator, reused in zip(compile_.operators, later.reused, strict=True):
            name = self._header.operators[operator]
            kind = name.rpartition("_")[0]
            if not reused and not any(each.startswith(f"te_{kind}_") for each in damaged):
                where = f"{compile_.cache}: every later compile has {name} compiled again"
                self._add(Kind.POISON, later.round, where)

    def _ended(self, number: int, jobs: Sequence[StressJob], ended: JobEnd) -> None:
        job = jobs[ended.job]
        network = self._header.networks[job.number]
        who = f"rank {job.rank}, which had to {job.doing.value} {network},"
        if ended.returncode is None:
            raise Undecided(f"round {number}: {who} did not end")
        if ended.killed:
            return
        delivers = job.doing in (Doing.RUN, Doing.BUILD)
        if ended.returncode != 0 or (delivers and not ended.outputs):
            # The package need not exist if another process uninstalls it, or none installed it.
            alone = [each.number for each in jobs if _changes(each)].count(job.number) == 1
            if job.doing is not Doing.UNINSTALL or (alone and job.number in self._installed):
                said = f": {ended.said}" if ended.said else ""
                self._add(Kind.NO_OUTPUT, number, f"{who} ended with {ended.returncode}{said}")
        elif delivers and ended.outputs != self._header.outputs[job.doing.value][job.number]:
            self._add(Kind.WRONG_KERNEL, number, f"{who} got other outputs than without a cache")

    def _packages(self, record: RoundRecord, seen: Seen) -> None:
        """Judge whether exactly the packages that were installed last are there and in the index. A
        killed process may or may not have done its work."""
        number, installed = record.round.number, frozenset(seen.packages)
        killed = {record.round.jobs[each.job].number for each in record.ended if each.killed}
        for package, network in enumerate(self._header.networks):
            done = {each.doing for each in record.round.jobs if _changes(each, package)}
            before = package in self._installed
            wanted = {Doing.INSTALL in done} if done else {before}
            if len(done) > 1 or package in killed:
                wanted = {True, False}
            if (package in installed) not in wanted:
                how = "is gone" if before or done else "is there, and nobody installed it"
                how = "is there after it was uninstalled" if done == {Doing.UNINSTALL} else how
                self._add(Kind.PACKAGE, number, f"the package of {network} {how}")
        self._installed = installed
        if killed:
            self._index.update(seen.index)
        for wrong in seen.index:
            if wrong not in self._index:
                self._add(Kind.INDEX, number, wrong)

    def _rebuilt(self, job: StressJob, rebuilt: Rebuilt) -> None:
        before = len(self.violations)
        ended = JobEnd(rebuilt.round, 0, rebuilt.returncode, rebuilt.outputs)
        self._ended(rebuilt.round, (job,), ended)
        may_store = self._header.profile != NodeProfile.NO_LOCKS.value
        if rebuilt.written and may_store and len(self.violations) == before:
            where = f"rank {job.of}: every later build writes {rebuilt.written[0]} again"
            self._add(Kind.POISON, rebuilt.round, where)

    def _whose(self, kernel: str) -> str:
        for setting, digests in self._header.right.items():
            if kernel in digests:
                return f"which is {self._header.operators[digests.index(kernel)]} {setting}"
        return "which no compile gives"

    def _entries(self, number: int, seen: CacheSeen) -> None:
        known = self._cache(seen.cache)
        for entry in seen.entries:
            where = f"{seen.cache}: {entry.stem[:24]}"
            if entry.problems:
                if entry not in known.broken:
                    self._add(Kind.MIXED_ENTRY, number, f"{where}: {'; '.join(entry.problems)}")
            elif self._stems.setdefault(entry.stem, entry.object) != entry.object:
                self._add(Kind.MIXED_ENTRY, number, f"{where}: two kernels under one name")
            elif not entry.stem.startswith(f"te_{self._types.get(entry.object, '')}_"):
                held = f"{where}: holds {entry.object[:12]}, {self._whose(entry.object)}"
                self._add(Kind.MIXED_ENTRY, number, held)
        for name in seen.residue:
            if name not in known.residue:
                known.residue.add(name)
                self._add(Kind.RESIDUE, number, f"{seen.cache}: {name} is left, nobody was killed")

    def _touched(self, record: RoundRecord) -> None:
        assert record.seen is not None
        allowed = set()
        for each in record.round.compiles:
            allowed |= {f"rank{each.rank}/{part}/" for part in ("home", "work", "out")}
            allowed.add(f"{SHARED}/" if each.shared else f"rank{each.rank}/cache/")
        for job in record.round.jobs:
            allowed |= {f"rank{job.rank}/{part}/" for part in ("work", "out")}
            allowed.add(f"build/rank_{job.of}/")
        for path in record.seen.touched:
            if not any(f"{path}/".startswith(each) for each in allowed):
                what = f"{path} was changed, and no process of the round may write there"
                self._add(Kind.FOREIGN_DIRECTORY, record.round.number, what)
