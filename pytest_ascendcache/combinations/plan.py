"""Plans which cells a run tries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache

from pytest_ascendcache.combinations.cell import Cell, batches
from pytest_ascendcache.combinations.covering import (
    Coverage,
    Model,
    all_rows,
    coverage,
    covering_array,
)
from pytest_ascendcache.combinations.factors import SOCS, combinations_model, in_use
from pytest_ascendcache.contract import Capability


class Matrix(str, Enum):
    """What ``--ascend-select`` leads to: every pair of levels, every triple, or all combinations of
    a reduced model."""

    PAIRWISE = "pairwise"
    TRIPLES = "triples"
    FULL = "full"


@dataclass(frozen=True)
class Plan:
    """Cells in the order in which they are compiled, with their matrix and model."""

    matrix: Matrix
    model: Model
    cells: tuple[Cell, ...]

    @cached_property
    def batches(self) -> dict[Cell, tuple[Cell, ...]]:
        """For each cell the batch it is compiled in."""
        return {cell: batch for batch in batches(self.cells) for cell in batch}

    def coverage(self, tried: Iterable[Mapping[str, str]]) -> tuple[Coverage, Coverage]:
        """Count what the tried cells, levels by factor as in reports, cover: of all combinations,
        and of those that use the cache. A cell that lacks a factor does not count."""
        names = {factor.name for factor in self.model.factors}
        rows = [self.model.row(levels) for levels in tried if set(levels) == names]
        strength = _strength(self.matrix)
        return coverage(self.model, strength, rows), coverage(in_use(self.model), strength, rows)

    def describe(self, tried: Collection[Mapping[str, str]]) -> list[str]:
        """The lines of a report about the cells that were tried."""
        sizes = "x".join(str(len(factor.levels)) for factor in self.model.factors)
        kind = "full (reduced model)" if self.matrix is Matrix.FULL else self.matrix.value
        everywhere, used = self.coverage(tried)
        return [
            f"combinations, {kind}: {len(tried)} of {len(self.cells)}, {sizes} levels",
            f"  {everywhere}",
            f"  with the cache in use: {used}",
        ]


@lru_cache  # it takes a third of a second; processes forked after the first call inherit it
def plan(matrix: Matrix, capabilities: frozenset[Capability], socs: tuple[str, ...] = SOCS) -> Plan:
    """The cells for a toolchain with these capabilities, for these chips."""
    model = combinations_model(capabilities, reduced=matrix is Matrix.FULL, socs=socs)
    if matrix is Matrix.FULL:
        rows = list(all_rows(model))
    else:
        rows = covering_array(model, _strength(matrix))
        rows += covering_array(in_use(model), _strength(matrix), given=rows)
    ordered = batches(Cell(model, row) for row in rows)
    return Plan(matrix, model, tuple(cell for batch in ordered for cell in batch))


def _strength(matrix: Matrix) -> int:
    return 3 if matrix is Matrix.TRIPLES else 2
