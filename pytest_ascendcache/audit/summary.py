"""What only shows once every file was read: limits, contradictions, toolchains, ranks."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from pytest_ascendcache.audit.cann import SocCache
from pytest_ascendcache.audit.entries import Toolchains
from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.limits import Ini, limits_of, megabytes, read_ini
from pytest_ascendcache.audit.mindspore import GraphCache, RankKernels, short
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Reader
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.static import InstalledKernels
from pytest_ascendcache.caches.recognition import GRAPH_FILE, KERNEL_STEM, Kind, rank_of, split
from pytest_ascendcache.contract import Edition

_NO_CANN = "there is no operator cache of CANN in it"
_NO_RANKS = "there are no caches of several ranks in it"
_ONLY_GRAPHS = "graphs have no metadata with a digest or a name"
_NAMED = 5
_INI, _VERSION = "op_cache.ini", "version.info"


@dataclass(frozen=True)
class Summary:
    """Completes the result of a pass; ``now`` is in seconds since the epoch.

    ``environment`` supplies limits that no file sets, and ``edition`` what ini files mean.
    """

    result: Audit
    ledger: Ledger
    reader: Reader
    environment: Mapping[str, str]
    now: float
    edition: Edition

    def conclude(self) -> None:
        """Add findings about several files, notes, and the rules that do not apply."""
        result = self.result
        self._limits()
        for unit, judge in result.units.items():
            if isinstance(judge, InstalledKernels) and judge.entries and not judge.has_index:
                detail = "there is no binary_info_config.json: its kernels are never found"
                self.ledger.add(Check.WHOLE_ENTRIES, unit or ".", detail)
        self._toolchains()
        self._ranks()
        notes = self._notes(Check.WHOLE_ENTRIES)
        notes.append(result.describe())
        if {*result.kinds.values()} <= {Kind.GRAPH_CACHE}:
            result.inapplicable |= dict.fromkeys((Check.DIGESTS, Check.NAMES_INSIDE), _ONLY_GRAPHS)
        if renewed := self.reader.renewed:
            notes.append(f"{renewed} access times could not be kept: only a file's owner may")

    def _notes(self, check: Check) -> list[str]:
        return self.result.notes.setdefault(check, [])

    def _limits(self) -> None:
        socs = {u: judge for u, judge in self.result.units.items() if isinstance(judge, SocCache)}
        if not socs:
            self.result.inapplicable |= dict.fromkeys((Check.INI, Check.SIZE), _NO_CANN)
        parents = {unit: self._kernel_cache(unit) for unit in socs}
        inis = {parent: self._inis(parent) for parent in {*parents.values()}}
        for unit, soc in sorted(socs.items()):
            limits, origin = limits_of(inis[parents[unit]], self.environment, self.edition)
            name = printable(unit or self.result.directory.name)
            total, notes = soc.aging.total, self._notes(Check.SIZE)
            if limits.bytes is None:
                notes.append(f"{name}: {megabytes(total)}, aging is off ({origin})")
                continue
            gone, size = soc.aging.would_go(limits, self.now, self.edition.idle)
            aging = f"{gone} entries ({megabytes(size)})" if gone else "none"
            state = f"{megabytes(total)} of {limits.megabytes} MB ({origin}), {aging} would age now"
            notes.append(f"{name}: {state}")
            if total > limits.bytes:
                first = f", {', '.join(map(printable, soc.aging.oldest))} first" if gone else ""
                detail = f"has {state}{first}; {limits.ratio} % of the limit is kept"
                self.ledger.add(Check.SIZE, unit or ".", detail, total)

    def _kernel_cache(self, unit: str) -> Path | None:
        """Return the directory of all SoCs; None if one SoC's directory is audited by itself."""
        parent = (self.result.directory / unit).parent
        return parent if unit or parent.name == "kernel_cache" else None

    def _inis(self, cache: Path | None) -> dict[str, Ini]:
        """Read the files that set limits, by path, and report what is wrong with them.

        The place that the document names comes before the place where CANN writes the file.
        """
        if cache is None:
            return {}
        places = [cache.parent, cache] if cache.name == "kernel_cache" else [cache]
        inis = {}
        for place in places:
            if (data := self._small_file(place, _INI)) is not None:
                path = self._relative(place / _INI)
                inis[path] = read_ini(data, self.edition)
                for problem in inis[path].problems:
                    self.ledger.add(Check.INI, path, problem, len(data))
        stamps = {path: ini.stamps for path, ini in inis.items()}
        if (data := self._small_file(cache, _VERSION)) is not None:
            stamped = read_ini(b"[op_compiler_cache]\n" + data, self.edition)
            stamps[self._relative(cache / _VERSION)] = stamped.stamps
        known: dict[str, tuple[str, str]] = {}
        for path, values in (*((path, ini.values) for path, ini in inis.items()), *stamps.items()):
            for key, value in values.items():
                other, before = known.setdefault(key, (path, value))
                if before != value:
                    detail = (
                        f"says {key}={value[:40]}, {other} says {before[:40]}: one of them is stale"
                    )
                    self.ledger.add(Check.INI, path, detail)
        return inis

    def _small_file(self, place: Path, name: str) -> bytes | None:
        try:
            with self.reader.folder(place, self._relative(place)) as folder:
                content = folder.read(name)
        except CannotRead as error:
            self.result.unread.add(str(error))
        except ChangedWhileRead as error:
            self.result.changed.add(str(error))
        except OSError:
            return None  # nothing needs to exist outside of the audited directory
        else:
            return content.data if content is not None else None
        return None

    def _relative(self, path: Path) -> str:
        if not path.is_relative_to(self.result.directory):
            return str(path)
        relative = path.relative_to(self.result.directory)
        return "" if relative == Path() else str(relative)

    def _toolchains(self) -> None:
        """Compare the toolchains behind all SoCs of a cache, and behind all ranks of a job."""
        groups: defaultdict[str, Toolchains] = defaultdict(Toolchains)
        for unit, judge in sorted(self.result.units.items()):
            if isinstance(judge, (SocCache, RankKernels)):
                group = groups[self._group(unit)]
                for name, count in judge.toolchains.counts.items():
                    # Some toolchains add the chip they compile for to their own name.
                    plain = name.replace(PurePath(unit).name, "<SoC>") if unit else name
                    group.counts[plain] += count
                    group.kernels[plain] += judge.toolchains.kernels[name]
        notes = self._notes(Check.ONE_TOOLCHAIN)
        for where, group in groups.items():
            counts = sorted(group.counts.items(), key=lambda each: (-each[1], each[0]))
            makers = "; ".join(f"{count} by '{printable(name)}'" for name, count in counts)
            if counts:
                notes.append(f"{printable(where or '.')}: {makers}")
            for name, count in counts[1:]:
                detail = f"is one of {count} kernels by '{printable(name)}'; there are {makers}"
                for path in group.kernels[name]:
                    self.ledger.add(Check.ONE_TOOLCHAIN, path, detail)
        if not notes:
            self.result.inapplicable[Check.ONE_TOOLCHAIN] = "its kernels do not say who made them"

    def _group(self, unit: str) -> str:
        """Return what a unit shares with the other SoCs of its cache or ranks of its job."""
        if self.result.kinds[unit] is Kind.SOC and unit:
            return str(PurePath(unit).parent)
        rank = rank_of(unit)
        return rank[0] if rank is not None else unit

    def _ranks(self) -> None:
        result = self.result
        jobs: dict[tuple[Kind, str], dict[int, str]] = {}
        for unit, kind in result.kinds.items():
            rank = rank_of(unit)
            if rank is not None and kind in (Kind.KERNEL_META, Kind.GRAPH_CACHE):
                jobs.setdefault((kind, rank[0]), {})[rank[1]] = unit
        self._add_empty_ranks(jobs)
        jobs = {job: ranks for job, ranks in jobs.items() if len(ranks) > 1}
        if not jobs:
            checks = (Check.RANKS_AGREE, Check.RANK_DUPLICATES)
            result.inapplicable |= dict.fromkeys(checks, _NO_RANKS)
        elif all(kind is Kind.GRAPH_CACHE for kind, _ in jobs):
            result.inapplicable[Check.RANK_DUPLICATES] = "graphs are never the same bytes twice"
        for _, units in sorted(jobs.items()):
            self._compare(units)

    def _add_empty_ranks(self, jobs: dict[tuple[Kind, str], dict[int, str]]) -> None:
        """Add the ranks that have a directory but lost the kernels or graphs in it."""
        for directory in self.result.ranks:
            rank = rank_of(directory)
            for (kind, job), units in jobs.items():
                unit = f"{directory}/{job.rpartition('/')[2]}"
                if rank is not None and rank_of(unit) == (job, rank[1]) and rank[1] not in units:
                    units[rank[1]] = unit
                    empty = RankKernels if kind is Kind.KERNEL_META else GraphCache
                    self.result.units[unit] = empty(Ledger())

    def _compare(self, units: Mapping[int, str]) -> None:
        # Imported late: it needs numpy, and most caches belong to no ranks.
        from pytest_ascendcache.audit.ranks import compare_objects, compare_ranks

        names = partial(self._names, units)
        judges = {rank: self.result.units[unit] for rank, unit in sorted(units.items())}
        keyed = {r: j for r, j in judges.items() if isinstance(j, (RankKernels, GraphCache))}
        keys = {rank: judge.keys for rank, judge in keyed.items()}
        compare_ranks(self.ledger, units, keys, names)
        kernels = {rank: judge for rank, judge in judges.items() if isinstance(judge, RankKernels)}
        if kernels:
            count, size = compare_objects(self.ledger, units, kernels, names)
            note = f"{len(units)} ranks, {count} kernels ({megabytes(size)}) more than once"
            self._notes(Check.RANK_DUPLICATES).append(note)

    def _names(self, units: Mapping[int, str], rank: int, keys: frozenset[int]) -> list[str]:
        """Names of a rank's kernels by their keys, from a second look at its directory."""
        unit = units[rank]
        try:
            with self.reader.folder(self.result.directory / unit, unit) as folder:
                found = {name_key(name) for name in os.listdir(folder.descriptor)}  # noqa: PTH208 - of an open directory
        except OSError:
            return []
        return sorted(printable(each.decode()) for each in found if short(each) in keys)[:_NAMED]


def name_key(name: str) -> bytes:
    """Return the part of a file's name that names the kernel or graph, without the device."""
    match = KERNEL_STEM.fullmatch(split(name)[0])
    if match is not None:
        return match["name"].encode()
    return name.encode("utf-8", "surrogateescape") if GRAPH_FILE.fullmatch(name) else b""
