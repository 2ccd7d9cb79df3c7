"""The smallest combination that still fails."""

from __future__ import annotations

from collections.abc import Callable

from pytest_ascendcache.combinations.cell import Cell


def minimise(cell: Cell, fails: Callable[[Cell], bool]) -> Cell:
    """Set factors to their plain level, as long as the rest still fails: one at a time, or
    together where the model ties them to each other.

    ``fails`` compiles a combination and says whether it breaks the same promise. The result
    fails, and does not with any of its remaining factors plain.
    """
    tied = [constraint.factors for constraint in cell.model.constraints]
    smaller = True
    while smaller:
        smaller = False
        for names in [*((name,) for name in cell.special), *tied]:
            candidate = cell.plain(*names)
            if candidate is not None and candidate != cell and fails(candidate):
                cell, smaller = candidate, True
                break
    return cell
