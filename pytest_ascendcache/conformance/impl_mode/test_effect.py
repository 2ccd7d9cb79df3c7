"""Document I: whether each option of implementation modes does anything at all.

Kernels are compared with each other, so nothing here needs the toolchain's tables: some of the
operators below have two kernels, whichever option chooses between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pytest

from pytest_ascendcache.caches import same_code
from pytest_ascendcache.conformance.kit.implementations import accuracy
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, HIT, NEW, elementary, needs, rule
from pytest_ascendcache.contract import CacheMode, Capability, PrecisionFile, SelectMode
from pytest_ascendcache.contract.facts import Delivery, Subject, SubjectKind, outcome_fact
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.operators import OperatorSpec

KINDS = ("Exp", "Gelu", "SoftmaxV2", "Sqrt", "Tanh")
OPERATORS = tuple(
    operator_of(each, (16, 32), dtype="float16", name=f"effect_{each.lower()}") for each in KINDS
)
"""Float16 operators to which releases of CANN offer both modes."""

Kernels = dict[OperatorSpec, bytes]
Compiled = Callable[..., Kernels]


def _by_file(mode: str) -> dict[str, Any]:
    return {"precision_file": PrecisionFile.of(dict.fromkeys(KINDS, mode))}


FILES = tuple(map(_by_file, (HIGH_PRECISION, HIGH_PERFORMANCE)))
SELECTED = (
    {"select_implmode": SelectMode.HIGH_PRECISION_FOR_ALL},
    {"select_implmode": SelectMode.HIGH_PERFORMANCE_FOR_ALL},
)
LISTED = tuple(
    {"select_implmode": mode, "implmode_types": KINDS[:2]}
    for mode in (SelectMode.HIGH_PRECISION, SelectMode.HIGH_PERFORMANCE)
)
WAYS = {
    "--op_precision_mode": FILES,
    "--op_select_implmode": SELECTED,
    "--optypelist_for_implmode": LISTED,
}
"""Options, each with the two requests between whose kernels it chooses."""


@pytest.fixture(scope="session")
def known() -> dict[str, Kernels]:
    """Kernels by the options of their compile; the checks of a session share them."""
    return {}


@pytest.fixture
def compiled(cache: CacheUnderTest, known: dict[str, Kernels]) -> Compiled:
    """Compiles the operators, once for the same options."""

    def compiled(**options: Any) -> Kernels:
        if str(options) not in known:
            run = cache.compile(*OPERATORS, **options)
            known[str(options)] = {each: run.kernel(each) for each in OPERATORS}
        return known[str(options)]

    return compiled


def _differ(one: Kernels, other: Kernels) -> list[str]:
    return [each.type for each in OPERATORS if not same_code(one[each], other[each])]


@elementary()
@rule("impl-mode/has-effect")
@pytest.mark.parametrize("option", WAYS)
def test_an_option_chooses_between_kernels(
    cache: CacheUnderTest, compiled: Compiled, option: str
) -> None:
    """In one cache, where files of the same name have other contents: a key that lacks the option
    is told from an option that does nothing by compiles without a cache."""
    differing = {name: _differ(*_both(compiled, name, ENABLE)) for name in WAYS}
    if unlike := [name for name in WAYS if not differing[name]]:
        fresh = {name: _differ(*_both(compiled, name, None)) for name in unlike}
        if option in unlike and fresh[option]:
            _served(cache, option)
        differing |= fresh
    if not any(differing.values()):
        raise NotDecidable(
            f"{', '.join(KINDS)} have one kernel each, whichever mode --op_select_implmode and "
            "--op_precision_mode name: they have no effect, or nothing here has two modes"
        )
    same = f"every kernel is the same under high precision and high performance by {option}"
    subject = Subject(SubjectKind.OPTION, option)
    chosen = set(differing[option])
    assert chosen, cache.evidence.found(Delivery.UNCHANGED, same, subject=subject)
    if option == "--optypelist_for_implmode":
        others = sorted(chosen - {*KINDS[:2]})
        if others and _differ_by_chance(cache, WAYS[option][0]):
            raise NotDecidable("kernels differ by chance from one compile to the next")
        assert not others, cache.evidence.found(
            Delivery.UNCHANGED,
            f"{', '.join(others)} follow the mode without being listed",
            subject=subject,
        )


def _served(cache: CacheUnderTest, option: str) -> NoReturn:
    """Show in a cache of its own that the kernel of the other mode is served."""
    other = cache.elsewhere(cache.sandbox / "two-modes")
    for each in WAYS[option]:
        other.compile(*OPERATORS, mode=ENABLE, **each)
    fact = outcome_fact(
        HIT,
        [NEW],
        subject=Subject(SubjectKind.OPTION, option),
        run=len(cache.evidence.steps),
    )
    served = "the cache serves the kernel of the other mode"
    raise AssertionError(cache.evidence.found(fact, served))


def _both(compiled: Compiled, option: str, mode: CacheMode | None) -> list[Kernels]:
    return [compiled(mode=mode, **each) for each in WAYS[option]]


def _differ_by_chance(cache: CacheUnderTest, options: Mapping[str, Any]) -> bool:
    """Whether kernels of equal requests differ. What differs by chance may be equal by chance."""
    runs = [cache.compile(*OPERATORS, **options) for _ in range(6)]
    first, *again = [{each: run.kernel(each) for each in OPERATORS} for run in runs]
    return any(_differ(first, each) for each in again)


@rule("impl-mode/has-effect")
def test_high_precision_is_the_more_accurate(cache: CacheUnderTest) -> None:
    needs(cache.toolchain, Capability.RUN_KERNELS)
    precise, fast = (cache.compile(*OPERATORS, **each) for each in FILES)
    two = [each for each in OPERATORS if not same_code(precise.kernel(each), fast.kernel(each))]
    if not two:
        raise NotDecidable(f"none of {', '.join(KINDS)} has two kernels")
    for each in two:
        errors = [
            accuracy(cache.toolchain, run, each, mode).mean_ulp
            for run, mode in ((precise, HIGH_PRECISION), (fast, HIGH_PERFORMANCE))
        ]
        assert errors[0] < errors[1], f"{each.type}: high precision is not the more accurate"
