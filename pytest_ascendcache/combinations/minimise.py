"""Shrinks a failing combination."""

from __future__ import annotations

from collections.abc import Callable

from pytest_ascendcache.combinations.cell import Cell


def minimise(cell: Cell, fails: Callable[[Cell], bool]) -> Cell:
    """Set factors to their plain level as long as the combination still fails.

    This happens one factor at a time, or together for factors that a constraint ties. ``fails``
    compiles a combination and returns whether it breaks the same promise. The result fails, but
    not with any of its remaining factors plain.
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
