"""Finds the levels of factors that explain broken combinations: the smallest that always break."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

Cell = Mapping[str, str]
Levels = tuple[tuple[str, str], ...]
UNCHANGED = ("not-given", "default")
"""Levels that leave an option out; they alone explain nothing."""
_MANY = 2000
"""More passed cells than this are searched for pairs only: triples would take seconds."""


def explanations(broken: Sequence[Cell], passed: Sequence[Cell]) -> list[dict[str, str]]:
    """For each broken cell the levels that explain it; empty if none do.

    Candidates are all levels, pairs and triples that no passed cell has. The one that explains the
    most broken cells is taken first, of two that explain as many the smaller one; then the next
    one for the rest.
    """
    explained_by: list[dict[str, str]] = [{} for _ in broken]
    left = set(range(len(broken)))
    most = 3 if len(passed) <= _MANY else 2
    # What only leaves options out explains nothing.
    parts = [
        [part for part in _parts(cell, most) if any(level not in UNCHANGED for _, level in part)]
        for cell in broken
    ]
    candidates = {each for of_cell in parts for each in of_cell}
    for cell in passed:
        candidates.difference_update(_parts(cell, most))
    parts = [[each for each in of_cell if each in candidates] for of_cell in parts]
    while left:
        counts = Counter(part for number in left for part in parts[number])
        if not counts:
            break
        # The cache mode is half of most explanations.
        best = max(counts, key=lambda each: (counts[each], -len(each), "cache_mode" in dict(each)))
        explained = {number for number in left if best in parts[number]}
        for number in explained:
            explained_by[number] = {name: level for name, level in best if level not in UNCHANGED}
        left -= explained
    return explained_by


def _parts(cell: Cell, most: int) -> list[Levels]:
    levels = sorted(cell.items())
    sizes = range(1, most + 1)
    return [part for size in sizes for part in itertools.combinations(levels, size)]
