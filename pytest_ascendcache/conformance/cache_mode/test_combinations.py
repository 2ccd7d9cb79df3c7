"""Documents C and I together: operators under combinations of options (``--ascend-select``), judged
by the central table, by kernels and their numbers, and by what became of damaged entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


Judge = Callable[[Facts], None]


@pytest.fixture
def judge(cell_runs: CellRuns, ascend_cell: Cell, ascend_evidence: Evidence) -> Judge:
    """Breaks the check with every fact of its cell, and the smallest combination that still shows
    one."""

    def judge_cell(facts_of: Facts) -> None:
        facts = cell_runs.facts(ascend_cell, ascend_evidence, facts_of)
        explain = cell_runs.explain
        more = explain(ascend_cell, facts_of, ascend_evidence, facts) if facts else ()
        require_none(facts, ascend_evidence, *more)

    return judge_cell


@rule("combinations/outcome")
def test_outcome(judge: Judge) -> None:
    judge(outcome_facts)


@rule("cache-mode/transparent")
def test_kernel_is_a_fresh_one(judge: Judge) -> None:
    judge(kernel_facts)


@rule("combinations/numbers")
@pytest.mark.ascend_cells(dtype="float16")
def test_numbers_are_of_the_mode(judge: Judge) -> None:
    judge(number_facts)


@rule("robust/heals-damaged-entry")
@pytest.mark.ascend_cells(cache_mode="enable", before=("damaged", "half-object", "half-metadata"))
def test_damage_is_healed(judge: Judge) -> None:
    judge(healing_facts)
