"""Compares the cards of each job: what one lacks, and what the others will do at the next start.

Source: document M, frequent questions: if the caches of some ranks are deleted, the others wait.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pytest_ascendcache.audit.cann import KernelFolder
from pytest_ascendcache.audit.entries import EntryJudge
from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.limits import megabytes
from pytest_ascendcache.audit.mindspore import GraphCache, RankKernels
from pytest_ascendcache.audit.reading import Reader, numbers, short
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.caches.cards import (
    card_of,
    count_from_zero,
    exchanged,
    of_other_cards,
    own_device,
)
from pytest_ascendcache.caches.recognition import GRAPH_FILE, KERNEL_STEM, CacheKind, split

_NO_CARDS = "there are no caches of several ranks in it"
_NAMED = 5
_COMPARED = (RankKernels, GraphCache, KernelFolder)


@dataclass(frozen=True)
class JobOfCards:
    """The directories of one job's cards by number, and what their paths have in common."""

    path: str
    kind: CacheKind
    units: dict[int, str]
    surely: bool


@dataclass(frozen=True)
class CardsOfJobs:
    """Adds findings about the cards in the result of an audit."""

    result: Audit
    ledger: Ledger
    reader: Reader

    def conclude(self) -> None:
        """Compare the cards of every job; without several, say that the rules do not apply."""
        jobs = [each for each in self._jobs() if len(each.units) > 1]
        shared = [*filter(self._shared, sorted(self.result.units))]
        if not jobs:
            checks = (*(() if shared else (Check.RANKS_AGREE,)), Check.RANK_DUPLICATES)
            self.result.inapplicable |= dict.fromkeys(checks, _NO_CARDS)
        elif all(job.kind is CacheKind.GRAPH_CACHE for job in jobs):
            detail = "graphs are never the same bytes twice"
            self.result.inapplicable[Check.RANK_DUPLICATES] = detail
        for job in jobs:
            self._compare(job, f"{printable(job.path)}: " if len(jobs) > 1 else "")

    def _shared(self, unit: str) -> bool:
        """Tell of kernels of several cards in one directory, and return whether there are any. Jobs
        of one card leave them that ran on each in turn. Source: document M, RANK_ID."""
        judge = self.result.units[unit]
        cards = sorted({*judge.devices}) if isinstance(judge, RankKernels) else []
        if not isinstance(judge, RankKernels) or len(cards) < 2:
            return False
        which = ", ".join(map(str, cards[:8])) + (" ..." if cards[8:] else "")
        if judge.recorded.get("scenario.cards") == "several":
            detail = (
                f"has kernels for cards {which} of a job of several cards: a card looks into the "
                "directory of its own rank, so RANK_ID did not reach their processes, unless this "
                "rank ran on each of these cards in turn; at the next start the others compile "
                "theirs again"
            )
            self.ledger.add(Check.RANKS_AGREE, unit, detail)
        else:
            note = (
                f"{printable(unit or '.')}: has kernels for cards {which}: of jobs of one card "
                "that ran on each in turn, or RANK_ID did not reach the processes of a job"
            )
            self.result.notes.setdefault(Check.RANKS_AGREE, []).append(note)
        return True

    def _jobs(self) -> list[JobOfCards]:
        units: defaultdict[tuple[CacheKind, str], dict[int, str]] = defaultdict(dict)
        surely: dict[tuple[CacheKind, str], bool] = {}
        for unit, kind in sorted(self.result.kinds.items()):
            card = None if self.result.is_too_deep(unit) else card_of(unit)
            if card is not None and isinstance(self.result.units[unit], _COMPARED):
                units[kind, card.job][card.number] = unit
                surely[kind, card.job] = card.surely
        for directory in self.result.counted:
            self._add_cold(directory, units)
        jobs = (
            JobOfCards(job, kind, found, surely[kind, job])
            for (kind, job), found in sorted(units.items())
        )
        return [each for each in jobs if each.surely or self._looks_like_one(each)]

    def _add_cold(
        self, directory: str, units: Mapping[tuple[CacheKind, str], dict[int, str]]
    ) -> None:
        """Add a card that has a directory but lost the kernels or graphs in it."""
        card = card_of(directory)
        if card is None or card.place != directory:
            return
        for (kind, job), found in units.items():
            rest = job.removeprefix(card.job)
            if (rest == job and card.job) or card.number in found or rest[:1] not in ("", "/"):
                continue
            if any(unit.startswith(f"{directory}/") for unit in found.values()):
                continue
            unit = f"{directory}{rest}"
            found[card.number] = unit
            self.result.units.setdefault(unit, _empty(kind, self.ledger))

    def _looks_like_one(self, job: JobOfCards) -> bool:
        """Return whether directories that only count are cards: numbered from zero, with kernels
        in common."""
        judges = (self.result.units[unit] for unit in job.units.values())
        keys = [frozenset(each.keys) for each in judges if isinstance(each, _COMPARED)]
        filled = [each for each in keys if each]
        common = frozenset.intersection(*filled) if filled else frozenset()
        return count_from_zero(job.units) and bool(common)

    def _compare(self, job: JobOfCards, whose: str) -> None:
        # Imported late: it needs numpy, and most caches belong to no ranks.
        from pytest_ascendcache.audit.ranks import compare_contents, compare_objects, compare_ranks

        units = job.units
        names = partial(self._names, units)
        judges = {number: self.result.units[unit] for number, unit in sorted(units.items())}
        own = {
            number: own_device(Counter(judge.devices))
            for number, judge in judges.items()
            if isinstance(judge, RankKernels) and judge.devices
        }
        keys = {number: self._own_keys(judge, own.get(number)) for number, judge in judges.items()}
        differs = partial(_recorded, judges)
        for note in (compare_ranks(self.ledger, units, keys, names, differs), exchanged(own)):
            if note:
                self.result.notes.setdefault(Check.RANKS_AGREE, []).append(note)
        for number, detail in of_other_cards(own).items():
            self.ledger.add(Check.RANKS_AGREE, units[number], detail)
        self._odd_ones(units, judges)
        kernels = {number: each for number, each in judges.items() if isinstance(each, RankKernels)}
        folders = {
            number: each for number, each in judges.items() if isinstance(each, KernelFolder)
        }
        if len(folders) > 1:
            compare_contents(self.ledger, units, folders)
        if kernels:
            count, size = compare_objects(self.ledger, units, kernels, names)
            note = f"{len(units)} ranks, {count} kernels ({megabytes(size)}) more than once"
            self.result.notes.setdefault(Check.RANK_DUPLICATES, []).append(whose + note)

    def _odd_ones(self, units: Mapping[int, str], judges: Mapping[int, EntryJudge]) -> None:
        """Report cards whose graphs are of other scripts, or whose kernels are for another chip,
        than those of most cards."""
        scripts, chips = dict[int, str](), dict[int, str]()
        for number, judge in judges.items():
            if isinstance(judge, GraphCache) and judge.scripts:
                scripts[number] = judge.scripts
            elif isinstance(judge, RankKernels) and judge.chips:
                chips[number] = judge.chips.most_common(1)[0][0]
        for number in _odd(scripts):
            detail = (
                "its graphs are of other scripts than those of most cards: it compiles them while "
                "the others wait"
            )
            (_, most), (_, next_to_most) = Counter(scripts.values()).most_common(2)
            if next_to_most == most:
                other = next(each for each in scripts if scripts[each] != scripts[number])
                detail = (
                    f"its graphs and those of card {other} are of different scripts: the cards "
                    "whose scripts changed compile while the others wait"
                )
            self.ledger.add(Check.RANKS_AGREE, units[number], detail)
        for number in _odd(chips):
            others = next((each for each in chips.values() if each != chips[number]), "")
            detail = f"has kernels for {chips[number]}, and other cards have those for {others}"
            self.ledger.add(Check.ONE_TOOLCHAIN, units[number], detail)

    def _own_keys(self, judge: EntryJudge, device: int | None) -> array[int]:
        """Return the keys of the kernels that a card will look for."""
        if isinstance(judge, RankKernels):
            pairs = zip(judge.keys, judge.devices, strict=True)
            return array("q", (key for key, each in pairs if each == device))
        return judge.keys if isinstance(judge, _COMPARED) else numbers()

    def _names(self, units: Mapping[int, str], rank: int, keys: frozenset[int]) -> list[str]:
        """Names of a rank's kernels by their keys, from a second look at its directory."""
        unit = units[rank]
        try:
            with self.reader.folder(self.result.directory / unit, unit) as folder:
                listed = os.listdir(folder.descriptor)  # noqa: PTH208 - of an open directory
        except OSError:
            return []
        of_cards = self.result.kinds.get(unit) in (CacheKind.KERNEL_META, CacheKind.GRAPH_CACHE)
        found = {name_key(name) if of_cards else _stem(name) for name in listed}
        return sorted(printable(each.decode()) for each in found if short(each) in keys)[:_NAMED]


def _recorded(judges: Mapping[int, EntryJudge], rank: int) -> str:
    """Return what the requests of a rank say, and all those of others say otherwise."""
    said = {at: each.recorded for at, each in judges.items() if isinstance(each, RankKernels)}
    mine, found = said.pop(rank, {}), list[str]()
    for what, value in mine.items():
        others = {each[what] for each in said.values() if each.get(what)}
        if value and len(others) == 1 and value not in others:
            found.append(f"{what} is {value} and not {others.pop()}")
    return ", ".join(found[:_NAMED])


def _odd(said: Mapping[int, str]) -> list[int]:
    most = Counter(said.values()).most_common(1)
    return [number for number, each in said.items() if each != most[0][0]]


def _empty(kind: CacheKind, ledger: Ledger) -> EntryJudge:
    if kind is CacheKind.KERNEL_META:
        return RankKernels(ledger)
    if kind is CacheKind.GRAPH_CACHE:
        return GraphCache(ledger)
    return KernelFolder(ledger, seen=lambda *_: None)


def _stem(name: str) -> bytes:
    stem, suffix = split(name)
    return stem.encode("utf-8", "surrogateescape") if suffix == ".json" else b""


def name_key(name: str) -> bytes:
    """Return the part of a file's name that names the kernel or graph, without the device."""
    match = KERNEL_STEM.fullmatch(split(name)[0])
    if match is not None:
        return match["name"].encode()
    return name.encode("utf-8", "surrogateescape") if GRAPH_FILE.fullmatch(name) else b""
