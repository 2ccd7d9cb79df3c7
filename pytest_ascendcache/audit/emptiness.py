"""Caches without entries, and entries in places where no toolchain looks."""

from __future__ import annotations

from pathlib import PurePath

from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.scratch import Scratch
from pytest_ascendcache.caches.chips import CHIP
from pytest_ascendcache.caches.recognition import CacheKind

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
    flat = {unit for unit, kind in result.kinds.items() if kind.is_flat}
    for unit in sorted(flat):
        judge, above = result.units[unit], str(PurePath(unit).parent).removeprefix(".")
        if judge.entries and unit and above in flat:
            where = f"{judge.entries} entries lie below {printable(above or '.')}, {_NOWHERE}"
            ledger.add(Check.LEFTOVERS, unit, where)
        elif judge.entries and _is_no_chip(result, unit):
            detail = (
                f"{judge.entries} entries are in a directory that no chip is called, {_NOWHERE}"
            )
            ledger.add(Check.LEFTOVERS, unit, detail)


def _is_no_chip(result: Audit, unit: str) -> bool:
    """Return whether a directory is in the place of a chip's and is a copy of it, by its name: not
    every chip is an Ascend, but none has a dot or a blank behind its name."""
    place = result.directory / unit
    is_soc = result.kinds[unit] is CacheKind.SOC and place.parent.name == "kernel_cache"
    begins = CHIP.match(place.name)
    return is_soc and begins is not None and begins[0] != place.name and unit not in result.linked
