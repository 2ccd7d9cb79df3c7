"""Documents C and I together: operators under combinations of options (``--ascend-select``), judged
by the central table, by kernels and their numbers, and by what became of damaged entries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_ascendcache.combinations import Cell
from pytest_ascendcache.conformance.kit.cells import (
    CellRuns,
    Facts,
    PlannedCaches,
    healing_facts,
    kernel_facts,
    number_facts,
    outcome_facts,
)
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import Evidence
from pytest_ascendcache.toolchains import Toolchain


@pytest.fixture(scope="session")
def cell_runs(ascend_session: PlannedCaches, ascend_toolchain: Toolchain) -> Iterator[CellRuns]:
    """Compiles cells, those of one batch in one run."""
    runs = CellRuns(ascend_session, ascend_toolchain)
    yield runs
    runs.close()


def judge(runs: CellRuns, cell: Cell, evidence: Evidence, facts_of: Facts) -> None:
    """Break the check with every fact, and the smallest combination that still shows one."""
    facts = runs.facts(cell, evidence, facts_of)
    more = runs.explain(cell, facts_of, evidence, facts) if facts else ()
    require_none(facts, evidence, *more)


@rule("combinations/outcome")
def test_outcome(cell_runs: CellRuns, ascend_cell: Cell, ascend_evidence: Evidence) -> None:
    judge(cell_runs, ascend_cell, ascend_evidence, outcome_facts)


@rule("cache-mode/transparent")
def test_kernel_is_a_fresh_one(
    cell_runs: CellRuns, ascend_cell: Cell, ascend_evidence: Evidence
) -> None:
    judge(cell_runs, ascend_cell, ascend_evidence, kernel_facts)


@rule("combinations/numbers")
@pytest.mark.ascend_cells(dtype="float16")
def test_numbers_are_of_the_mode(
    cell_runs: CellRuns, ascend_cell: Cell, ascend_evidence: Evidence
) -> None:
    judge(cell_runs, ascend_cell, ascend_evidence, number_facts)


@rule("robust/heals-damaged-entry")
@pytest.mark.ascend_cells(cache_mode="enable", before=("damaged", "half-object", "half-metadata"))
def test_damage_is_healed(
    cell_runs: CellRuns, ascend_cell: Cell, ascend_evidence: Evidence
) -> None:
    judge(cell_runs, ascend_cell, ascend_evidence, healing_facts)
