"""Which cells a run tries."""

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
    """Values of ``--ascend-matrix``: every pair of levels, every triple, or all of a reduced
    model with all."""

    PAIRWISE = "pairwise"
    TRIPLES = "triples"
    FULL = "full"


@dataclass(frozen=True)
class Plan:
    """Cells in the order they are compiled, and what they were made for."""

    matrix: Matrix
    model: Model
    cells: tuple[Cell, ...]

    @cached_property
    def batches(self) -> dict[Cell, tuple[Cell, ...]]:
        """The cells that are compiled together with each."""
        return {cell: batch for batch in batches(self.cells) for cell in batch}

    @cached_property
    def _in_use(self) -> Model:
        """The model's rows in which the cache is in use."""
        return in_use(self.model)

    def coverage(self, tried: Iterable[Mapping[str, str]]) -> tuple[Coverage, Coverage]:
        """What cells that were tried cover, counted anew: of all combinations, and of those in
        which the cache is in use. Cells come as levels by factor, as reports have them; what is
        no whole cell counts for nothing."""
        names = {factor.name for factor in self.model.factors}
        rows = [self.model.row(levels) for levels in tried if set(levels) == names]
        strength = _strength(self.matrix)
        return (
            coverage(self.model, strength, rows),
            coverage(self._in_use, strength, rows),
        )

    def describe(self, tried: Collection[Mapping[str, str]]) -> list[str]:
        """What a report says of cells that were tried."""
        sizes = "x".join(str(len(factor.levels)) for factor in self.model.factors)
        kind = "full (reduced model)" if self.matrix is Matrix.FULL else self.matrix.value
        everywhere, used = self.coverage(tried)
        return [
            f"matrix {kind}: {len(tried)} of {len(self.cells)} cells, {sizes} levels",
            f"  {everywhere}",
            f"  with the cache in use: {used}",
        ]


def plan(
    matrix: Matrix, capabilities: Collection[Capability], socs: tuple[str, ...] = SOCS
) -> Plan:
    """The cells for a toolchain with these capabilities, for these chips."""
    return _plan(matrix, frozenset(capabilities), socs)


@lru_cache  # a third of a second, and what is forked from a process that has made it has it too
def _plan(matrix: Matrix, capabilities: frozenset[Capability], socs: tuple[str, ...]) -> Plan:
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
