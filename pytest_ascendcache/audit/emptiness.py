"""Caches without entries, and entries in places where no toolchain looks."""

from __future__ import annotations

from pathlib import PurePath

from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.scratch import Scratch
from pytest_ascendcache.caches.chips import CHIP
from pytest_ascendcache.caches.recognition import CacheKind, rank_number

_NOWHERE = "where no toolchain looks: they are compiled again; move them, or remove them"
_EMPTY = (
    "has no entry: everything is compiled again at the next start; if there was a cache, look for "
    "a volume that is not mounted, or for another path"
)


def judge_emptiness(result: Audit, ledger: Ledger) -> None:
    """Warn of a cache without a single entry: it was lost, or is not where one thinks."""
    judges = [each for each in result.units.values() if not isinstance(each, Scratch)]
    nothing_else = not any(isinstance(each, Scratch) for each in result.units.values())
    if not judges and not nothing_else:
        result.inapplicable[Check.NOT_EMPTY] = "there is build scratch in it and no cache"
    read_all = not (result.unlisted.count or result.changed.count or result.stopped)
    if sum(each.entries for each in judges) == 0 and nothing_else and read_all:
        ledger.add(Check.NOT_EMPTY, ".", _EMPTY)
        return
    for unit in sorted(unit for unit, kind in result.kinds.items() if kind.is_flat):
        judge, above = result.units[unit], unit.rpartition("/")[0]
        if judge.entries and result.is_too_deep(unit):
            where = f"{judge.entries} entries lie below {printable(above or '.')}, {_NOWHERE}"
            ledger.add(Check.LEFTOVERS, unit, where)
        elif judge.entries and (what := _misnamed(result, unit)):
            where = f"{judge.entries} entries are in a directory that {what} is called, {_NOWHERE}"
            ledger.add(Check.LEFTOVERS, unit, where)


def _misnamed(result: Audit, unit: str) -> str:
    """Return what is not called as a directory is, a chip or a rank; empty if something may be. Not
    every chip is an Ascend, but none of those begins small, or has a dot or a blank behind its
    name. A rank is misspelt beside others that are not."""
    place, kind = result.directory / unit, result.kinds[unit]
    if kind is CacheKind.SOC and place.parent.name == "kernel_cache" and unit not in result.linked:
        begins = CHIP.match(place.name)
        is_chip = begins is None or (begins[0] == place.name and place.name[0].isupper())
        return "" if is_chip else "no chip"
    rank, jobs = PurePath(unit).parent, PurePath(unit).parents[1:2]
    is_rank = rank_number(rank.name) is not None or rank_number(rank.name.lower()) is None
    beside = (PurePath(each) for each in result.kinds)
    spelt = (each for each in beside if rank_number(each.parent.name) is not None)
    return "" if is_rank or not any(each.parents[1:2] == jobs for each in spelt) else "no rank"
