"""Which levels of which factors explain broken combinations: the smallest that always break."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Cell = Mapping[str, str]
Levels = tuple[tuple[str, str], ...]
UNCHANGED = ("not-given", "default")
"""Levels that leave an option out; nothing is blamed on them alone."""
_MANY = 2000
"""Passed cells above which triples would take seconds."""


def explanations(broken: Sequence[Cell], passed: Sequence[Cell]) -> list[dict[str, str]]:
    """For each broken cell the levels that explain it; empty where none do.

    Of all levels, pairs and triples that no passed cell has, the one that explains the most broken
    cells is taken first, the smaller one where two explain as many; then the next for the rest.
    """
    found: list[dict[str, str]] = [{} for _ in broken]
    left = set(range(len(broken)))
    most = 3 if len(passed) <= _MANY else 2
    parts = [[each for each in _parts(cell, most) if _says_something(each)] for cell in broken]
    blamed = {each for own in parts for each in own}
    for cell in passed:
        blamed.difference_update(_parts(cell, most))
    parts = [[each for each in own if each in blamed] for own in parts]
    while left:
        counts: dict[Levels, int] = {}
        for number in left:
            for part in parts[number]:
                counts[part] = counts.get(part, 0) + 1
        if not counts:
            break
        best = max(counts, key=lambda each: (counts[each], -len(each), _pair_of_mode(each)))
        explained = {number for number in left if best in parts[number]}
        for number in explained:
            found[number] = {name: level for name, level in best if level not in UNCHANGED}
        left -= explained
    return found


def _parts(cell: Cell, most: int) -> list[Levels]:
    levels = sorted(cell.items())
    sizes = range(1, most + 1)
    return [part for size in sizes for part in itertools.combinations(levels, size)]


def _says_something(levels: Levels) -> bool:
    return any(level not in UNCHANGED for _, level in levels)


def _pair_of_mode(levels: Levels) -> bool:
    """The cache mode is half of most explanations; preferred where nothing else tells."""
    return any(name == "cache_mode" for name, _ in levels)
