"""What can be told before anything is run, and what the end of a run tells: suspects.

A suspect is a change that may turn misses into hits. It is a cause only once runs have shown it in
both directions. Source: document C (ATC ``--op_compiler_cache_mode``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from pytest_ascendcache.caches import Entry, read_entries
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.files import read_text
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.kernels import KERNEL_CACHE
from pytest_ascendcache.why.lab import Attempt, Lab
from pytest_ascendcache.why.request import (
    Fix,
    InputKind,
    PlaceOfUse,
    SingleChange,
    UserRequest,
    option_set,
)

_LIST = re.compile(r"^\s*op_debug_list\s*=\s*(.+)$", re.MULTILINE)
ENABLE = CacheMode.ENABLE.value


def entries_of(root: Path, soc: str) -> dict[str, Entry]:
    """The entries of one chip in a cache, whole or not."""
    return read_entries(root / KERNEL_CACHE / soc)


def suspects(request: UserRequest) -> list[SingleChange]:
    """Suspects that options, variables and names of files show."""
    return [*_directory(request), *_switches(request), *_chip(request)]


def _directory(request: UserRequest) -> Iterator[SingleChange]:
    consulted, origin = request.consulted
    if consulted.resolve() != request.cache:
        there = str(request.cache)
        yield SingleChange(
            *(InputKind.DIRECTORY, origin, str(consulted), there),
            lambda place: replace(place, cache=request.cache),
        )


def _switches(request: UserRequest) -> Iterator[SingleChange]:
    options = request.options
    mode = options.get(atc.CACHE_MODE, "")
    enabled = option_set(atc.CACHE_MODE, ENABLE)

    if mode in ("", CacheMode.DISABLE.value):
        yield SingleChange(InputKind.MODE, atc.CACHE_MODE, mode, ENABLE, enabled)
    if mode == CacheMode.FORCE.value:
        yield SingleChange(InputKind.FORCE, atc.CACHE_MODE, mode, ENABLE, enabled)
    if options.get(atc.DEBUG_LEVEL, "0") not in ("0", ""):
        yield _without(InputKind.DEBUG_LEVEL, atc.DEBUG_LEVEL, options[atc.DEBUG_LEVEL])
    if config := options.get(atc.DEBUG_CONFIG, ""):
        yield _without(InputKind.DEBUG_CONFIG, atc.DEBUG_CONFIG, config, _listed(Path(config)))


def _without(kind: InputKind, name: str, here: str, about: str = "") -> SingleChange:
    return SingleChange(kind, name, here, "", option_set(name, None), about)


def _listed(config: Path) -> str:
    try:
        match = _LIST.search(read_text(config, errors="replace"))
    except OSError:
        return ""
    return match[1].strip() if match else ""


def _chip(request: UserRequest) -> Iterator[SingleChange]:
    """The chip with most entries, if the cache has none of the one that is compiled for."""
    soc, above = request.options.get(atc.SOC, ""), request.cache / KERNEL_CACHE
    if entries_of(request.cache, soc) or not above.is_dir():
        return
    counts = {each.name: len(read_entries(each)) for each in above.iterdir() if each.is_dir()}
    most = max(counts, key=lambda name: counts[name], default="")
    if counts.get(most):
        yield SingleChange(InputKind.CHIP, atc.SOC, soc, most, option_set(atc.SOC, most))


def seen(lab: Lab, place: PlaceOfUse, outcome: Attempt) -> list[SingleChange]:
    """Suspects that a run shows by what it did to its copy of the cache.

    A force run removes and compiles everything whatever state it is in, so it shows nothing.
    """
    if place.options.get(atc.CACHE_MODE) != ENABLE or outcome.failure:
        return []
    found = []
    before, after = outcome.stamps
    original = place.cache / KERNEL_CACHE / place.soc
    if original.is_symlink() and Fix.LINK not in place.fixes:
        there = str(original.resolve())
        found.append(_fix(InputKind.LINK, str(original), there, Fix.LINK))
    if before != after and before and Fix.STAMP not in place.fixes:
        lab.stamp = after
        found.append(_fix(InputKind.STAMP, *first_difference(after, before), Fix.STAMP))
        return found  # a purge hides the rest
    if outcome.gone and Fix.TIMES not in place.fixes:
        found.append(_fix(InputKind.AGED, str(len(outcome.gone)), "", Fix.TIMES))
    again = sorted(lab.mend(place.soc, outcome) - place.mended)
    damaged = [stem for stem in again if outcome.rewritten[stem]]
    for stems in damaged, [stem for stem in again if stem not in damaged]:
        if stems:
            faults = dict.fromkeys(outcome.rewritten[stem] for stem in stems)
            found.append(_mended([*faults], stems))
    return found


def _mended(faults: list[str], stems: list[str]) -> SingleChange:
    named = stems[0] if len(stems) == 1 else f"{stems[0]}, ..."
    return SingleChange(
        *(InputKind.DAMAGED if faults[0] else InputKind.REFUSED, stems[0], "; ".join(faults[:2])),
        str(len(stems)),
        lambda place: replace(place, mended=place.mended | {*stems}),
        named,
    )


def _fix(kind: InputKind, here: str, there: str, fix: Fix) -> SingleChange:
    return SingleChange(
        *(kind, fix.value, here, there),
        lambda place: replace(place, fixes=place.fixes | {fix}),
    )


def first_difference(here: str, there: str) -> tuple[str, str]:
    """The first line in which two texts differ, in both."""
    for one, other in zip_longest(here.splitlines(), there.splitlines(), fillvalue=""):
        if one != other:
            return one.strip()[:80], other.strip()[:80]
    return "", ""
