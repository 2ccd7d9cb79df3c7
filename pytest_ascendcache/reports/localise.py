"""Which levels of which factors explain broken combinations: the smallest that always break."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Cell = Mapping[str, str]
Levels = tuple[tuple[str, str], ...]
UNCHANGED = ("not-given", "default")
"""Levels that leave an option out; nothing is blamed on them."""


def explanations(broken: Sequence[Cell], passed: Sequence[Cell]) -> list[dict[str, str]]:
    """For each broken cell the levels that explain it; empty where none do.

    Of all levels, pairs and triples that no passed cell has, the one that explains the most broken
    cells is taken first, the smaller one where two explain as many; then the next for the rest.
    """
    found: list[dict[str, str]] = [{} for _ in broken]
    left = set(range(len(broken)))
    fine = {each for cell in passed for each in _parts(cell)}
    parts = [
        [each for each in _parts(cell) if each not in fine and _says_something(each)]
        for cell in broken
    ]
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


def _parts(cell: Cell) -> list[Levels]:
    levels = sorted(cell.items())
    return [part for size in (1, 2, 3) for part in itertools.combinations(levels, size)]


def _says_something(levels: Levels) -> bool:
    return any(level not in UNCHANGED for _, level in levels)


def _pair_of_mode(levels: Levels) -> bool:
    """The cache mode is half of most explanations; preferred where nothing else tells."""
    return any(name == "cache_mode" for name, _ in levels)
