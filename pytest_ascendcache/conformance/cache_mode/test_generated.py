"""Documents C and I, with generated operators: every type, field by field, hundreds in one run."""

from __future__ import annotations

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.generated import (
    FamilyRuns,
    another_kernel,
    generated,
    less_accurate,
    shuffled,
    starts_anew,
    wrong_results,
)
from pytest_ascendcache.conformance.kit.implementations import tables_of
from pytest_ascendcache.conformance.kit.told import needs_served, require_none
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, HIT, rule
from pytest_ascendcache.conformance.kit.walked import (
    not_refused_beside,
    refused_elsewhere,
    sharing,
    walked,
)
from pytest_ascendcache.contract import Capability, PrecisionFile
from pytest_ascendcache.contract.facts import outcome_fact
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.toolchains import Toolchain

TRIES = {"pairwise": 3, "triples": 6, "full": 64}
"""The matrix of ``--ascend-select`` -> of how many types a kind of change is tried."""


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> str:
    """The session's ``--ascend-select``, which decides how many operators are generated."""
    return str(request.getfixturevalue("ascend_session").settings.matrix)


@rule("cache-mode/key-separates")
def test_generated_operators_are_not_mixed_up(cache: CacheUnderTest, matrix: str) -> None:
    """Whatever the order, each operator is delivered the kernel of its fresh compile, and the
    second run reuses all."""
    cache.needs_reuse()
    runs = FamilyRuns(cache)
    fresh = runs.fresh(generated(matrix))
    stored = cache.compile(*shuffled(fresh, seed=seeded(1)), mode=ENABLE)
    served = cache.compile(*shuffled(fresh, seed=seeded(2)), mode=ENABLE)
    wrong = runs.wrong(stored, fresh) + runs.wrong(served, fresh)
    require_none(runs.facts(wrong, served), cache.evidence)
    if cache.marks:
        needs_served(cache, served, served.operators)


@rule("cache-mode/enable-reuses")
def test_processes_that_share_nothing_reuse_every_type(cache: CacheUnderTest, matrix: str) -> None:
    """Operators need no name. Each process has a hash seed of its own."""
    every = {each.type: each.named("") for each in generated(matrix, near=False)}
    operators = tuple(FamilyRuns(cache).fresh(tuple(every.values())))
    if not operators:
        raise NotDecidable("the toolchain compiles none of the generated operators")
    starts_anew(cache)
    for seed in ("1", "2"):
        run = cache.compile(*operators, mode=ENABLE, environment={"PYTHONHASHSEED": seed})
    facts = [
        outcome_fact(run[each], [HIT], each, detail=f"{each}, stored by another process")
        for each in operators
        if run[each] != HIT
    ]
    require_none(facts, cache.evidence)


@rule("cache-mode/key-separates")
def test_a_change_anywhere_in_a_description_counts(cache: CacheUnderTest, matrix: str) -> None:
    """One thing of a description at a time, whatever it is: what is compiled without a cache is
    delivered its own kernel, and what is refused without a cache is refused beside a warm one."""
    cache.needs_reuse()
    runs = FamilyRuns(cache)
    every = {each.type: each for each in generated(matrix, near=False)}
    bases = runs.fresh(tuple(every.values()))
    found = walked(cache, tuple(bases), TRIES[matrix], seeded(3))
    if not found.accepted:
        raise NotDecidable("of the changed descriptions all are refused")
    fresh = {**bases, **found.accepted}
    stored = cache.compile(*shuffled(fresh, seed=seeded(1)), mode=ENABLE)
    served = cache.compile(*shuffled(fresh, seed=seeded(2)), mode=ENABLE)
    wrong = runs.wrong(stored, fresh) + runs.wrong(served, fresh)
    not_refused = not_refused_beside(cache, found.refused.values())
    facts = [*runs.facts(wrong, served), *refused_elsewhere(cache, not_refused)]
    if cache.marks:
        facts += sharing(served, found.distinct)
    cache.evidence.notes.append(
        f"{len(found.accepted)} changed descriptions are compiled, {len(found.refused)} refused"
    )
    require_none(facts, cache.evidence)


@rule("combinations/numbers")
def test_generated_operators_compute_right_numbers(
    cache: CacheUnderTest, toolchain: Toolchain, matrix: str
) -> None:
    """Odd and long extents, broadcasts, edge values. Served kernels equal these fresh ones."""
    wrong = wrong_results(toolchain, FamilyRuns(cache).fresh(generated(matrix, near=False)))
    require_none(wrong, cache.evidence)


@rule("impl-mode/key-separates")
def test_both_modes_of_every_type_live_in_one_cache(
    cache: CacheUnderTest, toolchain: Toolchain, matrix: str
) -> None:
    """Kernels of each mode are stored next to the other's, and then served. They equal the mode's
    fresh kernels, and those of high precision are no less accurate."""
    cache.needs_reuse()
    tables = tables_of(toolchain)
    of_two = {each.type: each for each in generated(matrix, near=False) if tables.has_two(each)}
    if not of_two:
        raise NotDecidable("the toolchain offers both modes to none of the generated operators")
    runs = FamilyRuns(cache)
    files = {
        mode: PrecisionFile.of(dict.fromkeys(sorted(of_two), mode))
        for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)
    }
    fresh = {
        mode: runs.fresh(tuple(of_two.values()), precision_file=file)
        for mode, file in files.items()
    }
    common = [
        each for each in of_two.values() if all(each in kernels for kernels in fresh.values())
    ]
    runs_of: dict[str, Run] = {}
    for delivered in ("delivered", "served"):
        for mode, file in files.items():
            run = cache.compile(*common, mode=ENABLE, precision_file=file)
            detail = f"it is {delivered} another kernel than a fresh one of {mode}"
            wrong = runs.wrong(run, fresh[mode])
            require_none([another_kernel(each, detail) for each in wrong], cache.evidence)
            runs_of[mode] = run
            if delivered == "served" and cache.marks:
                needs_served(cache, run, common)
    if Capability.RUN_KERNELS in toolchain.capabilities:
        require_none(less_accurate(toolchain, runs_of, common), cache.evidence)
