"""What can be told before anything is run, and what the end of a run tells: suspects.

A suspect is a change that may turn misses into hits. It is a cause only once runs have shown it in
both directions. Source: document C (ATC ``--op_compiler_cache_mode``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from pytest_ascendcache.why.atc_command import is_enabled
from pytest_ascendcache.why.lab import Lab
from pytest_ascendcache.why.request import (
    Attempt,
    Fix,
    InputKind,
    PlaceOfUse,
    SingleChange,
    UserRequest,
)


def suspects(request: UserRequest) -> Iterator[SingleChange]:
    """Suspects that options, variables and names of files show."""
    consulted, origin = request.consulted
    if request.place.cache.resolve() != request.cache:
        there = str(request.cache)
        yield SingleChange(
            *(InputKind.DIRECTORY, origin, str(consulted), there),
            lambda place: replace(place, cache=request.cache),
            f"{request.interface.setting}={there}",
        )
    yield from request.interface.suspects(request.place, request.cache)


def seen(lab: Lab, place: PlaceOfUse, outcome: Attempt) -> list[SingleChange]:
    """Suspects that a run shows by what it did to its copy of the cache; none after a force run,
    which removes and compiles everything whatever state it is in."""
    if outcome.failure or (place.interface.is_told and not is_enabled(place)):
        return []
    found = []
    original = place.cache / place.below
    if original.is_symlink() and Fix.LINK not in place.fixes:
        there = str(original.resolve())
        found.append(_fix(InputKind.LINK, str(original), there, Fix.LINK))
    if outcome.stamps and Fix.STAMP not in place.fixes and (outcome.gone or outcome.rewritten):
        lab.stamps = {name: after for name, (_, after) in outcome.stamps.items()}
        before, after = next(iter(outcome.stamps.values()))
        found.append(_fix(InputKind.STAMP, *first_difference(after, before), Fix.STAMP))
        return found  # a purge hides the rest
    if outcome.gone and Fix.TIMES not in place.fixes:
        found.append(_fix(InputKind.AGED, str(len(outcome.gone)), "", Fix.TIMES))
    faults = lab.mend(place, outcome)
    again = sorted(faults.keys() - place.mended)
    unread = [stem for stem in again if lab.is_unread(place, stem)]
    damaged = [stem for stem in again if faults[stem] and stem not in unread]
    whole = [stem for stem in again if not faults[stem]]
    for kind, stems in (
        (InputKind.UNREADABLE, unread),
        (InputKind.DAMAGED, damaged),
        (InputKind.REFUSED, whole),
    ):
        if stems:
            found.append(_mended(kind, [*dict.fromkeys(faults[stem] for stem in stems)], stems))
    return found


def _mended(kind: InputKind, faults: list[str], stems: list[str]) -> SingleChange:
    named = stems[0] if len(stems) == 1 else f"{stems[0]}, ..."
    return SingleChange(
        *(kind, stems[0], "; ".join(faults[:2]), str(len(stems))),
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
