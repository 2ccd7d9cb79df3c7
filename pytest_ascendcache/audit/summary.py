"""What only shows when every file has been seen: limits, settings, ranks, toolchains."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from pytest_ascendcache.audit.cann import SocCache
from pytest_ascendcache.audit.entries import Toolchains
from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.graphs import GraphCache
from pytest_ascendcache.audit.limits import Ini, limits_of, megabytes, read_ini
from pytest_ascendcache.audit.rank_kernels import RankKernels, short
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Reader
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.static import InstalledKernels
from pytest_ascendcache.caches.recognition import GRAPH_FILE, KERNEL_STEM, Kind, rank_of, split
from pytest_ascendcache.contract import Edition

_NO_CANN = "there is no operator cache of CANN in it"
_NO_RANKS = "there are no caches of several ranks in it"
_ONLY_GRAPHS = "graphs have no metadata with a digest or a name"
_NAMED = 5


def conclude(
    result: Audit,
    ledger: Ledger,
    reader: Reader,
    environment: Mapping[str, str],
    now: float,
    edition: Edition,
) -> None:
    """Add what follows from all files together to findings, notes and what does not apply."""
    socs = {unit: each for unit, each in result.units.items() if isinstance(each, SocCache)}
    if socs:
        _limits(result, ledger, reader, socs, environment, now, edition)
    else:
        result.inapplicable |= dict.fromkeys((Check.INI, Check.SIZE), _NO_CANN)
    for unit, judge in result.units.items():
        if isinstance(judge, InstalledKernels) and judge.entries and not judge.has_index:
            detail = "there is no binary_info_config.json: its kernels are never found"
            ledger.add(Check.WHOLE_ENTRIES, unit or ".", detail)
    _toolchains(result, ledger)
    _ranks(result, ledger, reader)
    looked_at = result.notes.setdefault(Check.WHOLE_ENTRIES, [])
    looked_at.append(result.describe())
    if {*result.kinds.values()} <= {Kind.GRAPH_CACHE}:
        no_names = dict.fromkeys((Check.DIGESTS, Check.NAMES_INSIDE), _ONLY_GRAPHS)
        result.inapplicable |= no_names
    if reader.renewed:
        looked_at.append(
            f"{reader.renewed} access times could not be kept: only a file's owner may"
        )


def _limits(
    result: Audit,
    ledger: Ledger,
    reader: Reader,
    socs: Mapping[str, SocCache],
    environment: Mapping[str, str],
    now: float,
    edition: Edition,
) -> None:
    notes = result.notes.setdefault(Check.SIZE, [])
    parents = {unit: _kernel_cache(result.directory, unit) for unit in socs}
    inis = {
        parent: _inis(result, ledger, reader, parent, edition) for parent in {*parents.values()}
    }
    for unit, soc in sorted(socs.items()):
        limits, origin = limits_of(inis[parents[unit]], environment, edition)
        name = printable(unit or result.directory.name)
        gone, size = soc.aging.would_go(limits, now, edition.idle)
        if limits.bytes is None:
            notes.append(f"{name}: {megabytes(soc.aging.total)}, aging is off ({origin})")
            continue
        aging = (
            f"{gone} entries ({megabytes(size)}) would age now" if gone else "none would age now"
        )
        line = f"{name}: {megabytes(soc.aging.total)} of {limits.megabytes} MB ({origin}), {aging}"
        notes.append(line)
        if soc.aging.total > limits.bytes:
            first = f", {', '.join(map(printable, soc.aging.oldest))} first" if gone else ""
            detail = f"has {line.partition(': ')[2]}{first}; {limits.ratio} % of the limit is kept"
            ledger.add(Check.SIZE, unit or ".", detail, soc.aging.total)


def _kernel_cache(directory: Path, unit: str) -> Path | None:
    """The directory of all SoCs; ``None`` where a SoC's was given, or copied, alone."""
    parent = (directory / unit).parent
    return parent if unit or parent.name == "kernel_cache" else None


def _inis(
    result: Audit, ledger: Ledger, reader: Reader, cache: Path | None, edition: Edition
) -> dict[str, Ini]:
    """The files that set limits, in the order they are asked: where the document has it, then
    where CANN does. What is wrong with them is noted."""
    found: dict[str, Ini] = {}
    places = [cache] if cache is not None else []
    if cache is not None and cache.name == "kernel_cache":
        places.insert(0, cache.parent)
    stamped: dict[str, dict[str, str]] = {}
    for place in places:
        for name in ("op_cache.ini", "version.info"):
            data = _small_file(result, reader, place, name)
            if data is None or (name == "version.info" and place != cache):
                continue
            text = data if name == "op_cache.ini" else b"[op_compiler_cache]\n" + data
            ini = read_ini(text, edition)
            path = _relative(result.directory, place / name)
            stamped[path] = ini.stamps
            if name == "op_cache.ini":
                found[path] = ini
                for problem in ini.problems:
                    ledger.add(Check.INI, path, problem, len(data))
    _contradictions(ledger, {path: dict(ini.values) for path, ini in found.items()}, stamped)
    return found


def _contradictions(
    ledger: Ledger, values: Mapping[str, Mapping[str, str]], stamped: Mapping[str, dict[str, str]]
) -> None:
    """Two files that say different things: one of them is stale."""
    said: dict[str, tuple[str, str]] = {}
    for path, pairs in (*values.items(), *stamped.items()):
        for key, value in pairs.items():
            other, before = said.setdefault(key, (path, value))
            if before != value:
                detail = (
                    f"says {key}={value[:40]}, {other} says {before[:40]}: one of them is stale"
                )
                ledger.add(Check.INI, path, detail)
                said[key] = (other, value)


def _small_file(result: Audit, reader: Reader, place: Path, name: str) -> bytes | None:
    try:
        with reader.folder(place, _relative(result.directory, place)) as folder:
            content = folder.read(name)
    except CannotRead as error:
        result.unread.add(str(error))
    except ChangedWhileRead as error:
        result.changed.add(str(error))
    except OSError:
        return None  # beside the audited directory there need not be anything
    else:
        return content.data if content is not None else None
    return None


def _relative(directory: Path, path: Path) -> str:
    try:
        relative = path.relative_to(directory)
    except ValueError:
        return str(path)
    return "" if relative == Path() else str(relative)


def _toolchains(result: Audit, ledger: Ledger) -> None:
    """Kernels of all SoCs of one cache, and of all ranks of one job, are to have one maker."""
    groups: dict[str, Toolchains] = {}
    for unit, judge in sorted(result.units.items()):
        made: Toolchains | None = getattr(judge, "toolchains", None)
        if made is None:
            continue
        group = groups.setdefault(_group(result, unit), Toolchains())
        for name, count in made.counts.items():
            # Some write the chip they compile for beside what they are.
            plain = name.replace(PurePath(unit).name, "<SoC>") if unit else name
            group.counts[plain] = group.counts.get(plain, 0) + count
            group.kernels.setdefault(plain, []).extend(made.kernels[name])
    notes = result.notes.setdefault(Check.ONE_TOOLCHAIN, [])
    for where, group in groups.items():
        counts = sorted(group.counts.items(), key=lambda each: (-each[1], each[0]))
        shown = "; ".join(f"{count} by '{printable(name)}'" for name, count in counts)
        if counts:
            notes.append(f"{printable(where or '.')}: {shown}")
        for name, count in counts[1:]:
            detail = f"is one of {count} kernels by '{printable(name)}'; there are {shown}"
            for path in group.kernels[name]:
                ledger.add(Check.ONE_TOOLCHAIN, path, detail)
    if not notes:
        result.inapplicable[Check.ONE_TOOLCHAIN] = "its kernels do not say who made them"


def _group(result: Audit, unit: str) -> str:
    """What a unit's kernels are used together with: those of other SoCs, of other ranks."""
    if result.kinds[unit] is Kind.SOC and unit:
        return str(PurePath(unit).parent)
    rank = rank_of(unit)
    return rank[0] if rank is not None else unit


def _ranks(result: Audit, ledger: Ledger, reader: Reader) -> None:
    jobs: dict[tuple[Kind, str], dict[int, str]] = {}
    for unit, kind in result.kinds.items():
        rank = rank_of(unit)
        if rank is not None and kind in (Kind.KERNEL_META, Kind.GRAPH_CACHE):
            jobs.setdefault((kind, rank[0]), {})[rank[1]] = unit
    _without_kernels(result, jobs)
    jobs = {job: ranks for job, ranks in jobs.items() if len(ranks) > 1}
    checks = (Check.RANKS_AGREE, Check.RANK_DUPLICATES)
    if not jobs:
        result.inapplicable |= dict.fromkeys(checks, _NO_RANKS)
        return
    if all(kind is Kind.GRAPH_CACHE for kind, _ in jobs):
        result.inapplicable[Check.RANK_DUPLICATES] = "graphs are never the same bytes twice"
    for (kind, _), units in sorted(jobs.items()):
        _one_job(result, ledger, _Names(result, reader, units, kind), units)


def _without_kernels(result: Audit, jobs: dict[tuple[Kind, str], dict[int, str]]) -> None:
    """A rank whose kernels were deleted has a directory all the same, or half of one."""
    for directory in result.ranks:
        rank = rank_of(directory)
        for (kind, job), units in jobs.items():
            last = job.rpartition("/")[2]
            whole = f"{directory}/{last}"
            if rank is not None and rank_of(whole) == (job, rank[1]) and rank[1] not in units:
                units[rank[1]] = whole
                empty = RankKernels if kind is Kind.KERNEL_META else GraphCache
                result.units[whole] = empty(Ledger())


def _one_job(result: Audit, ledger: Ledger, names: _Names, units: Mapping[int, str]) -> None:
    # Slow to import, for numpy's sake, and most caches are of no ranks.
    from pytest_ascendcache.audit.ranks import compare_objects, compare_ranks

    judges = {rank: result.units[unit] for rank, unit in sorted(units.items())}
    keyed = {r: j for r, j in judges.items() if isinstance(j, (RankKernels, GraphCache))}
    compare_ranks(ledger, units, {rank: judge.keys for rank, judge in keyed.items()}, names)
    kernels = {rank: judge for rank, judge in judges.items() if isinstance(judge, RankKernels)}
    if kernels:
        twice = compare_objects(ledger, units, kernels, names)
        note = (
            f"{len(units)} ranks, {twice.kernels} kernels ({megabytes(twice.bytes)}) more than once"
        )
        result.notes.setdefault(Check.RANK_DUPLICATES, []).append(note)


class _Names:
    """Finds kernels' names again, by a second look at the directories of ranks."""

    def __init__(self, result: Audit, reader: Reader, units: Mapping[int, str], kind: Kind) -> None:
        self._result, self._reader, self._units, self._kind = result, reader, units, kind

    def __call__(self, rank: int, keys: frozenset[int]) -> list[str]:
        unit = self._units[rank]
        try:
            with self._reader.folder(self._result.directory / unit, unit) as folder:
                found = {name_key(name) for name in os.listdir(folder.descriptor)}  # noqa: PTH208 - of an open directory
        except OSError:
            return []
        return sorted(printable(each.decode()) for each in found if short(each) in keys)[:_NAMED]


def name_key(name: str) -> bytes:
    """What of a file's name is the kernel's or graph's: not its device, not its suffix."""
    match = KERNEL_STEM.fullmatch(split(name)[0])
    if match is not None:
        return match["name"].encode()
    return name.encode("utf-8", "surrogateescape") if GRAPH_FILE.fullmatch(name) else b""
