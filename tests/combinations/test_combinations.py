"""Combinations of options: covering arrays, their completeness, the model, and the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations, product

import pytest

from pytest_ascendcache.combinations import (
    Cell,
    Constraint,
    Factor,
    Matrix,
    Model,
    all_rows,
    batches,
    combinations_model,
    coverage,
    covering_array,
    minimise,
    plan,
)
from pytest_ascendcache.combinations.cell import options_of
from pytest_ascendcache.combinations.factors import NOT_GIVEN, OF_ONE_OPERATOR
from pytest_ascendcache.contract import CacheMode, Capability, SelectMode

EVERYTHING = frozenset(Capability)

FREE = Model(
    tuple(
        Factor(name, tuple("0123"[:size]))
        for name, size in zip("abcde", (4, 3, 2, 3, 4), strict=True)
    )
)
TIED = Model(
    FREE.factors,
    (
        Constraint(("a", "b"), lambda a, b: a != "3" or b == "2", "3 goes with 2 only"),
        Constraint(("b", "c", "d"), lambda b, c, d: not b == c == d, "three of a kind"),
        Constraint(("e",), lambda e: e != "1", "never"),
    ),
)


def brute_force(model: Model, strength: int) -> tuple[set[object], int]:
    """Try every row of a model.

    Returns the combinations of ``strength`` levels that an allowed row has, and the number of those
    that no allowed row has.
    """
    feasible: set[object] = set()
    for row in product(*(range(len(factor.levels)) for factor in model.factors)):
        levels = model.levels(row)
        if all(
            constraint.allows(*(levels[name] for name in constraint.factors))
            for constraint in model.constraints
        ):
            feasible.update(combinations(enumerate(row), strength))
    return feasible, sum(1 for _ in model.tuples(strength)) - len(feasible)


@pytest.mark.parametrize("strength", [1, 2, 3])
@pytest.mark.parametrize("model", [FREE, TIED], ids=["free", "tied"])
def test_an_array_covers_everything_feasible_and_nothing_else(model: Model, strength: int) -> None:
    rows = covering_array(model, strength)
    feasible, infeasible = brute_force(model, strength)
    covered = {each for row in rows for each in combinations(enumerate(row), strength)}
    assert covered == feasible
    counted = coverage(model, strength, rows)
    assert (counted.covered, counted.feasible) == (len(feasible), len(feasible))
    assert counted.infeasible == infeasible
    assert counted.is_complete


def test_a_missing_row_is_counted() -> None:
    rows = covering_array(TIED, 2)
    assert not coverage(TIED, 2, rows[:-1]).is_complete


def test_rows_that_are_not_allowed_cover_nothing() -> None:
    everything = list(product(*(range(len(factor.levels)) for factor in TIED.factors)))
    assert coverage(TIED, 2, everything) == coverage(TIED, 2, all_rows(TIED))


def test_given_rows_are_not_made_again() -> None:
    rows = covering_array(FREE, 2)
    assert covering_array(FREE, 2, given=rows) == []
    rest = covering_array(FREE, 2, given=rows[:3])
    assert len(rest) < len(rows)
    assert coverage(FREE, 2, [*rows[:3], *rest]).is_complete


def test_arrays_are_the_same_in_every_process() -> None:
    program = (
        "from pytest_ascendcache.combinations import Matrix, plan\n"
        "from pytest_ascendcache.contract import Capability\n"
        "print([cell.row for cell in plan(Matrix.PAIRWISE, frozenset(Capability)).cells])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "matrix", [Matrix.PAIRWISE, pytest.param(Matrix.TRIPLES, marks=pytest.mark.nightly)]
)
def test_a_plan_is_complete_and_small(matrix: Matrix) -> None:
    made = plan(matrix, EVERYTHING)
    everywhere, in_use = made.coverage([cell.levels for cell in made.cells])
    assert everywhere.is_complete
    assert in_use.is_complete
    strength = 3 if matrix is Matrix.TRIPLES else 2
    sizes = sorted(len(factor.levels) for factor in made.model.factors)
    largest = 1
    for size in sizes[-strength:]:
        largest *= size
    assert len(covering_array(made.model, strength)) <= largest * (1.3 if strength == 2 else 1.4)


def test_full_is_every_combination_of_the_reduced_model() -> None:
    made = plan(Matrix.FULL, EVERYTHING)
    assert {cell.row for cell in made.cells} == set(all_rows(made.model))


def test_what_a_toolchain_cannot_do_is_left_out() -> None:
    levels = {factor.name: factor.levels for factor in combinations_model(()).factors}
    assert levels["debug_config"] == (NOT_GIVEN,)
    assert levels["precision_file"] == (NOT_GIVEN,)
    assert not {"stale", "other-mode"} & set(levels["before"])
    everywhere, _ = plan(Matrix.PAIRWISE, ()).coverage(
        [cell.levels for cell in plan(Matrix.PAIRWISE, ()).cells]
    )
    assert everywhere.is_complete


def cell(**levels: str) -> Cell:
    model = combinations_model(EVERYTHING)
    plain = {factor.name: factor.levels[0] for factor in model.factors}
    return Cell(model, model.row({**plain, **levels}))


def test_a_cell_says_what_is_special_about_it() -> None:
    assert str(cell()) == "plain"
    some = cell(cache_mode="force", dtype="float32")
    assert str(some) == "cache_mode=force dtype=float32"
    assert some.id == "cache_mode:force+dtype:float32"


def test_levels_become_options() -> None:
    options = options_of(
        [
            cell(
                cache_mode="enable",
                debug_level="2",
                debug_config="ccec_g",
                debug_list="mixed",
                select_implmode="high_precision",
                type_list="operator",
                precision_file="precision-by-name",
                soc="Ascend310P3",
            )
        ]
    )
    assert options.cache_mode is CacheMode.ENABLE
    assert options.debug_level == 2
    assert options.debug_config is not None
    assert options.debug_config.lists("Other", "cell_exp_float16")
    assert options.select_implmode is SelectMode.HIGH_PRECISION
    assert options.implmode_types == ("Exp",)
    assert options.precision_file is not None
    assert "cell_exp_float16=high_precision" in options.precision_file.content
    assert options.soc == "Ascend310P3"


def test_a_list_of_others_comes_as_near_as_it_can() -> None:
    config = options_of([cell(debug_config="ccec_g", debug_list="others")]).debug_config
    assert config is not None
    assert not config.lists("Exp", "cell_exp_float16")
    assert "cell_exp_float16_2" in (config.listed or ())


def test_cells_of_one_run_are_compiled_together() -> None:
    groups = batches(
        [
            cell(),
            cell(operator="Mul"),
            cell(before="valid"),
            cell(cache_mode="force"),
            cell(operator="Sqrt", before="stale"),
        ]
    )
    assert [len(group) for group in groups] == [2, 1, 1, 1]
    for made in plan(Matrix.FULL, EVERYTHING).batches.values():
        assert len({each.run_levels for each in made}) == 1
        assert len({each.operator for each in made}) == len(made)


def test_the_factors_of_one_operator_are_factors() -> None:
    names = [factor.name for factor in combinations_model(EVERYTHING).factors]
    assert set(OF_ONE_OPERATOR) < set(names)


def test_minimising_leaves_what_matters() -> None:
    start = cell(
        cache_mode="enable",
        debug_config="ccec_g",
        debug_list="others",
        select_implmode="high_precision",
        type_list="operator",
        before="valid",
        limits="off",
    )

    def fails(each: Cell) -> bool:
        return each.levels["cache_mode"] == "enable" and each.levels["type_list"] == "operator"

    smallest = minimise(start, fails)
    # The model allows a type list only with one of the plain modes.
    assert smallest.special == {
        "cache_mode": "enable",
        "select_implmode": "high_precision",
        "type_list": "operator",
    }


def test_minimising_takes_tied_factors_together() -> None:
    start = cell(cache_mode="enable", debug_config="ccec_g", debug_list="others")

    def fails(each: Cell) -> bool:
        # A debug configuration without a list is not the failure that is minimised here.
        alone = each.levels["debug_config"] != NOT_GIVEN and each.levels["debug_list"] == "no-list"
        return each.levels["cache_mode"] == "enable" and not alone

    assert minimise(start, fails).special == {"cache_mode": "enable"}


# --- the output of runs ---------------------------------------------------------------------


def test_a_failing_combination_is_named_and_minimised(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-cache",
        "--ascend-rule=combinations/outcome",
        "--ascend-defect=nothing-ages-beside-a-list",
        "--ascend-report=report.json",
        "-x",
        # One cell in which the kill matrix shows this defect.
        *("-k", "debug_level:0 and dump_cce and debug_list:others and Gelu and before:valid"),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = json.loads((pytester.path / "report.json").read_text())
    (broken,) = (each for each in report["checks"] if each["verdict"] == "fail")
    pytest.LineMatcher(broken["message"].splitlines()).fnmatch_lines(
        [
            "observed: of idle entries none gone",
            "expected: ab* (4 MB, * %)",
            "combination: cache_mode=enable *debug_list=others*",
            "options: * --soc_version=*--op_compiler_cache_mode=enable*",
            "smallest: *debug_list=others*limits=*",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "combinations, pairwise: * levels*",
            "  pairs covered * feasible, * infeasible",
            "what * idle entries over the limit*",
            "*debug_list=others*",
            "broken *combinations/outcome*",
            "repeat *--ascend-defect=nothing-ages-* *::test_outcome?*debug_list:others*",
        ],
    )


@pytest.mark.nightly
def test_the_matrix_line_counts_what_was_tried(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-cache",
        "-n2",
        "-k",
        "test_outcome and before:stale and cache_mode:force",
    )
    assert result.ret == pytest.ExitCode.OK
    made = plan(Matrix.PAIRWISE, EVERYTHING)
    tried = [
        cell.levels
        for cell in made.cells
        if cell.levels["before"] == "stale" and cell.levels["cache_mode"] == "force"
    ]
    assert tried
    result.stdout.fnmatch_lines(made.describe(tried))
