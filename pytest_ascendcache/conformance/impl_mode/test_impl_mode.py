"""Document I, ``--op_select_implmode``: which implementation is compiled, and what shares it.

Expectations come from the toolchain's own tables. Markers and entries show which kernel was
delivered, and so do the kernel's numbers if the toolchain can run kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import same_code
from pytest_ascendcache.conformance.kit.implementations import (
    EXP,
    EXP_FLOAT32,
    MUL,
    PROBES,
    SQRT,
    TANH,
    Measured,
    chosen_modes,
    is_less_accurate,
    measure,
    measured_operators,
    put_tables,
    tables_of,
    wrong_numbers,
)
from pytest_ascendcache.conformance.kit.told import accepted, require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    DISABLE,
    ENABLE,
    FORCE,
    HIT,
    KEPT,
    NEW,
    Outcome,
    needs,
    rule,
)
from pytest_ascendcache.contract import Capability, ImplModeTables, PrecisionFile, SelectMode
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.contract.impl_mode import OFFERED_TABLE
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import Accuracy, CacheUnderTest, Evidence, NotDecidable, Run
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

PRECISION, PERFORMANCE = SelectMode.HIGH_PRECISION, SelectMode.HIGH_PERFORMANCE
PRECISION_FOR_ALL = SelectMode.HIGH_PRECISION_FOR_ALL
PERFORMANCE_FOR_ALL = SelectMode.HIGH_PERFORMANCE_FOR_ALL

Options = dict[str, Any]
Numbers = Callable[[Run], None]


def select(mode: SelectMode, *types: str) -> Options:
    """``--op_select_implmode``, and ``--optypelist_for_implmode`` if there are types."""
    return {"select_implmode": mode, **({"implmode_types": types} if types else {})}


def by_file(modes: dict[str, str], names: dict[str, str] | None = None) -> Options:
    """``--op_precision_mode``, with modes by type and, in their own section, by node name."""
    return {"precision_file": PrecisionFile.of(modes, names)}


@pytest.fixture
def tables(toolchain: Toolchain) -> ImplModeTables:
    return tables_of(toolchain)


@pytest.fixture
def judge_numbers(
    cache: CacheUnderTest, tables: ImplModeTables, ascend_evidence: Evidence
) -> Numbers:
    """Breaks the check if the numbers of a run's kernels show the wrong mode. Raises
    ``NotDecidable`` if its options choose between two implementations of no operator."""
    needs(cache.toolchain, Capability.RUN_KERNELS)

    def judge(run: Run) -> None:
        if not chosen_modes(run, tables, run.operators):
            raise NotDecidable("the tables give none of these operators one of two modes")
        number = len(ascend_evidence.steps)
        wrong = wrong_numbers(cache, run, tables, run.operators, number)
        require_none(wrong, ascend_evidence)

    return judge


def switch(
    cache: CacheUnderTest,
    tables: ImplModeTables,
    before: Options,
    after: Options,
    operators: tuple[OperatorSpec, ...] = PROBES,
) -> Run:
    """Warm the cache under some options, and compile under others. Operators that keep their mode
    are reused; the others are stored next to the entries of the other mode, which stay."""
    cache.warm(*operators, **before)
    run = cache.compile(*operators, mode=ENABLE, **after)
    for operator in operators:
        same = tables.same_kernel(cache.options.but(**before), cache.options.but(**after), operator)
        if same:
            assert run[operator] == HIT, f"{operator}"
        elif same is False:
            assert run[operator] == NEW, f"{operator}"
            assert cache.fate(run, operator, **before) is KEPT
    return run


@rule("impl-mode/default-is-performance")
@pytest.mark.parametrize(
    ("before", "after"),
    [({}, select(PERFORMANCE)), (select(PERFORMANCE), {})],
    ids=["default-first", "high_performance-first"],
)
def test_the_default_shares_every_kernel_with_high_performance(
    cache: CacheUnderTest, tables: ImplModeTables, before: Options, after: Options
) -> None:
    run = switch(cache, tables, before, after)
    assert [run[each] for each in PROBES] == [HIT] * len(PROBES)


@rule("impl-mode/default-is-performance")
def test_the_default_is_not_high_precision(cache: CacheUnderTest, tables: ImplModeTables) -> None:
    switch(cache, tables, {}, select(PRECISION))


@rule("impl-mode/default-is-performance")
def test_default_kernels_compute_like_high_performance(
    cache: CacheUnderTest, judge_numbers: Numbers
) -> None:
    judge_numbers(cache.compile(*PROBES))


@rule("impl-mode/key-separates")
def test_a_precision_file_that_was_edited_is_read_again(
    cache: CacheUnderTest, tables: ImplModeTables
) -> None:
    """Its path, size and time stay: what is in it decides."""
    asked = _with_two(tables, EXP)
    path = cache.sandbox / "edited.ini"
    cache.warm(MUL)

    def run(mode: str) -> Outcome:
        path.write_text(f"{asked.type}={mode}\n".ljust(50, "\n"), encoding="utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))
        options = {"op_precision_mode": str(path)}
        return cache.compile(asked, mode=ENABLE, raw_options=options)[asked]

    assert [run(mode) for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)] == [NEW, NEW]
    assert run(HIGH_PRECISION) == HIT


def _with_two(tables: ImplModeTables, wanted: OperatorSpec) -> OperatorSpec:
    """This operator, or another one that has two implementations."""
    for each in (wanted, *PROBES):
        if tables.has_two(each):
            return each
    raise NotDecidable("no operator that is asked for has two implementations")


@rule("impl-mode/list-limits")
@pytest.mark.parametrize("mode", [PRECISION, PERFORMANCE])
def test_a_plain_mode_gives_what_its_table_says(
    cache: CacheUnderTest, judge_numbers: Numbers, mode: SelectMode
) -> None:
    """Its table may give some operators the other mode."""
    judge_numbers(cache.compile(*PROBES, **select(mode)))


@rule("impl-mode/for-all")
@pytest.mark.parametrize("mode", [PRECISION_FOR_ALL, PERFORMANCE_FOR_ALL])
def test_a_for_all_mode_gives_what_its_table_says(
    cache: CacheUnderTest, judge_numbers: Numbers, mode: SelectMode
) -> None:
    judge_numbers(cache.compile(*PROBES, **select(mode)))


@rule("impl-mode/by-dtype")
@pytest.mark.parametrize("mode", list(SelectMode)[1:])
def test_another_data_type_is_compiled_once(
    cache: CacheUnderTest, tables: ImplModeTables, mode: SelectMode
) -> None:
    run = switch(cache, tables, select(PRECISION), select(mode), (EXP_FLOAT32, EXP))
    assert run[EXP_FLOAT32] == HIT


_BOTH = (HIGH_PRECISION, HIGH_PERFORMANCE)


@rule("impl-mode/single-implementation")
@pytest.mark.parametrize("mode", list(SelectMode)[1:])
def test_an_operator_with_one_implementation_is_compiled_once(
    cache: CacheUnderTest, tables: ImplModeTables, mode: SelectMode
) -> None:
    _has_one(tables, MUL)
    run = switch(cache, tables, select(PRECISION), select(mode), (MUL,))
    assert run[MUL] == HIT


@rule("impl-mode/single-implementation")
def test_naming_an_operator_with_one_implementation_changes_nothing(
    cache: CacheUnderTest, tables: ImplModeTables
) -> None:
    _has_one(tables, MUL)
    plain = cache.fresh(MUL)
    options = [select(mode, "Mul") for mode in (PRECISION, PERFORMANCE)]
    options += [by_file({"Mul": mode}) for mode in _BOTH]
    changed = [each for each in options if not same_code(cache.fresh(MUL, **each), plain)]
    assert changed == [], "the mode changes a kernel of one implementation"


def _has_one(tables: ImplModeTables, operator: OperatorSpec) -> None:
    if tables.has_two(operator):
        raise NotDecidable(f"this toolchain has two implementations of {operator}")


@rule("impl-mode/type-list")
@pytest.mark.parametrize(
    "types", [("Exp",), ("Exp", "Tanh"), ("Tanh", "Sqrt", "Mul")], ids="-".join
)
def test_only_listed_types_follow_the_mode(
    cache: CacheUnderTest, tables: ImplModeTables, types: tuple[str, ...]
) -> None:
    switch(cache, tables, select(PERFORMANCE, *types), select(PRECISION, *types))


@rule("impl-mode/precision-file")
@pytest.mark.parametrize(
    "beside",
    [select(PRECISION), select(PRECISION_FOR_ALL), select(PRECISION, "Exp", "Sqrt", "Tanh")],
    ids=["select", "for_all", "type-list"],
)
def test_the_file_wins_over_the_other_options(
    cache: CacheUnderTest, tables: ImplModeTables, judge_numbers: Numbers, beside: Options
) -> None:
    file = by_file({"Exp": HIGH_PERFORMANCE, "Tanh": HIGH_PERFORMANCE})
    run = switch(cache, tables, file, {**beside, **file}, (EXP, SQRT, TANH))
    assert {run[each] for each in (EXP, TANH)} == {HIT}
    judge_numbers(run)


@rule("impl-mode/precision-file")
def test_a_name_goes_before_a_type(
    cache: CacheUnderTest, tables: ImplModeTables, judge_numbers: Numbers
) -> None:
    named = EXP.named("impl_exp_named")
    before = by_file({"Exp": HIGH_PERFORMANCE})
    after = by_file({"Exp": HIGH_PERFORMANCE}, {named.name: HIGH_PRECISION})
    run = switch(cache, tables, before, after, (EXP, named))
    judge_numbers(run)


@rule("impl-mode/user-copy")
@pytest.mark.parametrize("mode", [PRECISION_FOR_ALL, PERFORMANCE_FOR_ALL])
def test_a_copied_table_selects_the_same_kernels(
    cache: CacheUnderTest, tables: ImplModeTables, toolchain: Toolchain, mode: SelectMode
) -> None:
    copy = PrecisionFile(toolchain.impl_mode_tables()[mode.value])
    run = switch(cache, tables, select(mode), {"precision_file": copy})
    assert {run[each] for each in PROBES} == {HIT}


@rule("impl-mode/user-copy")
@pytest.mark.parametrize("mode", [PRECISION_FOR_ALL, PERFORMANCE_FOR_ALL])
@pytest.mark.parametrize("changed", [EXP, TANH], ids=lambda each: each.type)
def test_changing_one_line_changes_that_operator_alone(
    cache: CacheUnderTest,
    tables: ImplModeTables,
    toolchain: Toolchain,
    judge_numbers: Numbers,
    mode: SelectMode,
    changed: OperatorSpec,
) -> None:
    copy = PrecisionFile(toolchain.impl_mode_tables()[mode.value])
    changed = _with_two(tables, changed)
    other = _BOTH[tables.selected[mode].mode(changed) == HIGH_PRECISION]
    edited = {"precision_file": copy.but(changed.type, other)}
    run = switch(cache, tables, {"precision_file": copy}, edited, (EXP, SQRT, TANH, MUL))
    compiled = [each for each in run.operators if run[each].delivered is COMPILED]
    assert compiled == [changed]
    judge_numbers(run)


@rule("impl-mode/unsupported")
@pytest.mark.parametrize("operator", [EXP, MUL, TANH], ids=lambda each: each.type)
def test_a_mode_not_offered_is_no_mode(
    cache: CacheUnderTest, tables: ImplModeTables, operator: OperatorSpec
) -> None:
    """The operator is compiled as if the file did not mention it, or the file is refused."""
    others = {mode for modes in tables.offered.values() for mode in modes}
    refused = sorted(others - tables.offered.get(operator.type, frozenset()))
    if not refused:
        raise NotDecidable(f"this toolchain offers every mode to {operator.type}")
    silent = by_file({"Sqrt": HIGH_PRECISION})
    for mode in refused:
        named = by_file({"Sqrt": HIGH_PRECISION, operator.type: mode})
        try:
            run = switch(cache, tables, silent, named, (SQRT, operator))
        except ToolchainError:
            if not _is_refused(cache, operator, named):
                raise
        else:
            assert run[operator] == HIT, f"{operator} under {mode}"


def _is_refused(cache: CacheUnderTest, operator: OperatorSpec, options: Options) -> bool:
    """Whether a run ends by itself with an error that names the type, and delivers nothing."""
    run = cache.attempt(operator, mode=DISABLE, **options)
    code, named = run.returncode or 0, operator.type in run.output
    return named and code > 0 and not crashed(code) and not any(run.result.delivered)


_TABLE_RULES = {
    OFFERED_TABLE: "impl-mode/unsupported",
    PRECISION.value: "impl-mode/list-limits",
    PERFORMANCE.value: "impl-mode/list-limits",
    PRECISION_FOR_ALL.value: "impl-mode/for-all",
    PERFORMANCE_FOR_ALL.value: "impl-mode/for-all",
}


@pytest.mark.parametrize(
    "table", [pytest.param(each, marks=rule(_TABLE_RULES[each])) for each in _TABLE_RULES]
)
def test_the_tables_of_the_operator_package_decide(
    cache: CacheUnderTest, toolchain: Toolchain, tables: ImplModeTables, table: str
) -> None:
    """In a package of its own, one table gives an operator the other mode, or no mode more."""
    needs(toolchain, Capability.VERSION_STAMP)
    if not tables.has_two(SQRT):
        raise NotDecidable(f"this toolchain has one implementation of {SQRT}")
    texts = dict(toolchain.impl_mode_tables())
    asked, other, expected = _asked(cache, tables, table)
    texts[table] = PrecisionFile(texts[table]).but(SQRT.type, other).content
    place = cache.sandbox / "package"
    place.mkdir()
    package = toolchain.stage(Capability.VERSION_STAMP, SQRT, place).environment
    put_tables(Path(package["ASCEND_OPP_PATH"]), texts)
    given: Options = {"environment": package, **asked}
    try:
        right = _alike(_fresh(cache, given), expected)
    except ToolchainError:
        right = table == OFFERED_TABLE and _is_refused(cache, SQRT, given)
        if not right:
            raise
    assert right, cache.evidence.found(
        Delivery.ANOTHER,
        f"{table}.ini of the operator package that ASCEND_OPP_PATH names gives {SQRT} {other}, "
        "and it is compiled as if it did not",
    )


_Fresh = bytes | Measured


def _fresh(cache: CacheUnderTest, options: Options) -> _Fresh:
    """What a fresh kernel of SQRT computes, which does not vary from one compile to the next; the
    kernel itself where kernels cannot be run."""
    if Capability.RUN_KERNELS in cache.toolchain.capabilities:
        return measure(cache.toolchain, cache.compile(SQRT, **options), SQRT)
    return cache.fresh(SQRT, **options)


def _alike(one: _Fresh, other: _Fresh) -> bool:
    if isinstance(one, bytes) or isinstance(other, bytes):
        return isinstance(one, bytes) and isinstance(other, bytes) and same_code(one, other)
    return one.computes_like(other)


def _asked(
    cache: CacheUnderTest, tables: ImplModeTables, table: str
) -> tuple[Options, str, _Fresh]:
    """Options under which a table decides, what it does not say, and the kernel if it said so."""
    if table == OFFERED_TABLE:
        requests = [
            (by_file({"Sqrt": mode}), other, by_file({"Exp": mode}))
            for mode, other in permutations(_BOTH)
        ]
    else:
        asked = select(SelectMode(table))
        precise = tables.mode(cache.options.but(**asked), SQRT) == HIGH_PRECISION
        requests = [(asked, _BOTH[precise], by_file({"Sqrt": _BOTH[precise]}))]
    for asked, other, unlike in requests:
        expected = _fresh(cache, unlike)
        if not _alike(_fresh(cache, asked), expected):
            return asked, other, expected
    raise NotDecidable(f"this toolchain compiles {SQRT} alike in both cases")


@rule("impl-mode/rejects-bad")
@pytest.mark.parametrize(
    "value", ["fast", "high_precision,high_performance", "1", "high_performance_for"]
)
def test_an_unknown_mode_is_refused(cache: CacheUnderTest, add: OperatorSpec, value: str) -> None:
    cache.warm(add)
    _refuses(cache, add, "op_select_implmode", value, *SelectMode)


@rule("impl-mode/rejects-bad")
@pytest.mark.parametrize("name", ["missing.ini", "missing/network.ini"])
def test_a_missing_precision_file_is_refused(
    cache: CacheUnderTest, add: OperatorSpec, name: str
) -> None:
    cache.warm(add)
    _refuses(cache, add, "op_precision_mode", str(Path(cache.work) / name))


def _refuses(
    cache: CacheUnderTest, operator: OperatorSpec, option: str, value: str, *named: str
) -> None:
    # Under force, to notice a purge before the error.
    run = cache.attempt(operator, mode=FORCE, raw_options={option: value})
    assert not run.succeeded, accepted(cache.evidence, f"--{option}", Path(value).name)
    assert run.result.returncode != 0, "the exit status says success"
    assert run.result.delivered == (None,), "a kernel was delivered"
    for word in (option, Path(value).name, *named):
        assert word in run.output, f"the error does not name {word}"
    assert run.entry_changes == {}, "the cache was touched"


@rule("impl-mode/key-separates")
@pytest.mark.parametrize(
    ("before", "after"),
    list(permutations(SelectMode, 2)),
    ids=lambda mode: mode.value.replace("high_", ""),
)
def test_switching_recompiles_what_changes_its_mode(
    cache: CacheUnderTest, tables: ImplModeTables, before: SelectMode, after: SelectMode
) -> None:
    switch(cache, tables, select(before), select(after))


@rule("impl-mode/key-separates")
@pytest.mark.parametrize("first", _BOTH)
def test_switching_by_precision_file_recompiles_what_changes_its_mode(
    cache: CacheUnderTest, tables: ImplModeTables, first: str
) -> None:
    before, after = first, _BOTH[first == HIGH_PRECISION]
    switch(
        cache,
        tables,
        by_file({"Exp": before, "Tanh": before, "Sqrt": before, "Mul": before}),
        by_file({"Exp": after, "Tanh": after, "Sqrt": before, "Mul": after}),
        (EXP, TANH, SQRT, MUL, EXP_FLOAT32),
    )


@rule("impl-mode/accuracy")
def test_high_precision_beats_high_performance_on_every_float16(
    cache: CacheUnderTest, tables: ImplModeTables, toolchain: Toolchain
) -> None:
    operators = measured_operators(tables)
    runs = {
        mode: cache.compile(*operators, **by_file(dict.fromkeys((o.type for o in operators), mode)))
        for mode in _BOTH
    }
    wrong, alike = [], []
    for operator in operators:
        both = {mode: measure(toolchain, runs[mode], operator, exhaustive=True) for mode in _BOTH}
        cache.evidence.accuracy += [
            Accuracy(operator.type, mode, each.worst, each.mean, each.errors.size)
            for mode, each in both.items()
        ]
        is_worse = is_less_accurate(both[HIGH_PRECISION], both[HIGH_PERFORMANCE])
        one, other = (runs[mode].kernel(operator) for mode in _BOTH)
        if same_code(one, other):
            wrong.append(f"{operator.type}: the tables offer both modes, and it has one kernel")
        elif is_worse:
            wrong.append(f"{operator.type}: high precision does not beat high performance")
        elif is_worse is None:
            alike.append(operator.type)
    assert wrong == []
    if alike:
        raise NotDecidable(f"{', '.join(alike)}: both kernels are equally accurate")
