"""Document I: whether each option of implementation modes does anything at all. Kernels are
compared with each other; the toolchain's tables only excuse an option that they give none of
these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import pytest

from pytest_ascendcache.caches import same_code
from pytest_ascendcache.conformance.kit.implementations import is_less_accurate, measure, tables_of
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, HIT, NEW, elementary, needs, rule
from pytest_ascendcache.contract import CacheMode, Capability, PrecisionFile, SelectMode
from pytest_ascendcache.contract.facts import Delivery, Numbers, Subject, SubjectKind, outcome_fact
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.operators import OperatorSpec

KINDS = ("Exp", "Gelu", "SoftmaxV2", "Sqrt", "Tanh")
LIST, LISTED_TYPES = "--optypelist_for_implmode", frozenset(KINDS[:2])
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
PLAIN = (
    {"select_implmode": SelectMode.HIGH_PRECISION},
    {"select_implmode": SelectMode.HIGH_PERFORMANCE},
)
LISTED = tuple({**each, "implmode_types": tuple(sorted(LISTED_TYPES))} for each in PLAIN)
WAYS = {
    "--op_precision_mode": FILES,
    "--op_select_implmode": SELECTED,
    LIST: LISTED,
}
"""Options, each with the two requests between whose kernels it chooses."""


Known = dict[str, tuple[Kernels, list[Step]]]


@pytest.fixture(scope="session")
def known() -> Known:
    """Kernels by the options of their compile, and the steps that made them, for all checks."""
    return {}


@pytest.fixture
def compiled(cache: CacheUnderTest, known: Known) -> Compiled:
    """Compiles the operators, once for the same options."""
    own: set[str] = set()

    def compiled(again: int = 0, **options: Any) -> Kernels:
        asked, steps = f"{options} {again}", cache.evidence.steps
        if asked not in known:
            before = len(steps)
            run = cache.compile(*OPERATORS, **options)
            kernels = {each: run.kernel(each) for each in OPERATORS}
            known[asked] = kernels, steps[before:]
        elif asked not in own:
            steps += known[asked][1]
        own.add(asked)
        return known[asked][0]

    return compiled


def _differ(one: Kernels, other: Kernels) -> set[str]:
    return {each.type for each in OPERATORS if not same_code(one[each], other[each])}


@elementary()
@rule("impl-mode/has-effect")
@pytest.mark.parametrize("option", WAYS)
def test_an_option_chooses_between_kernels(
    cache: CacheUnderTest, compiled: Compiled, option: str
) -> None:
    """In one cache, where files of the same name have other contents: a key that lacks the option
    is told from an option that does nothing by compiles without a cache. Whether types beside the
    list keep what the plain modes' tables say is open."""
    differing = {name: _chosen(compiled, name, ENABLE) for name in WAYS}
    if unlike := [name for name in WAYS if not differing[name]]:
        fresh = {name: _chosen(compiled, name, None) for name in unlike}
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
    chosen = differing[option]
    if not chosen and not _may_choose(cache, option):
        raise NotDecidable(f"the toolchain's tables give {option} none of {', '.join(KINDS)}")
    assert chosen, cache.evidence.found(Delivery.UNCHANGED, same, subject=subject)
    if option == LIST:
        not_listed = differing["--op_select_implmode"] & LISTED_TYPES - chosen
        assert not not_listed, cache.evidence.found(
            Delivery.UNCHANGED,
            f"{', '.join(sorted(not_listed))} does not follow the mode although it is listed",
            subject=subject,
        )
        if others := sorted(chosen - LISTED_TYPES):
            by_table = _differ(*(compiled(mode=None, **each) for each in PLAIN))
            others = [each for each in others if each not in by_table]
        assert not others, cache.evidence.found(
            Delivery.ANOTHER,
            f"{', '.join(others)} follow the mode without being listed",
            subject=subject,
        )


def _chosen(compiled: Compiled, option: str, mode: CacheMode | None) -> set[str]:
    """The types between whose kernels an option chooses, without what may differ by chance."""
    kernels = _both(compiled, option, mode)
    chosen = _differ(*kernels)
    doubtful = set[str]()
    for name in WAYS:
        pairs = zip(kernels, _both(compiled, name, mode), strict=True)
        unlike = set[str]().union(*(_differ(*each) for each in pairs))
        doubtful |= unlike & LISTED_TYPES if LIST in (name, option) else unlike
    if option == LIST:
        doubtful |= chosen - LISTED_TYPES
    return chosen - _by_chance(compiled, WAYS[option]) if chosen & doubtful else chosen


def _may_choose(cache: CacheUnderTest, option: str) -> bool:
    """Whether an option has to choose between kernels, as far as the tables can be read."""
    if Capability.IMPL_MODE_TABLES not in cache.toolchain.capabilities:
        return True
    tables = tables_of(cache.toolchain)
    precise, fast = (cache.options.but(**each) for each in WAYS[option])
    return any(tables.same_kernel(precise, fast, each) is False for each in OPERATORS)


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


def _by_chance(compiled: Compiled, requests: Iterable[Mapping[str, Any]]) -> set[str]:
    """The types whose kernels differ though the request is the same."""
    differ = set[str]()
    for each in requests:
        first, *again = (compiled(number, mode=None, **each) for number in range(6))
        differ = differ.union(*(_differ(first, other) for other in again))
    return differ


@rule("impl-mode/has-effect")
def test_high_precision_is_the_more_accurate(cache: CacheUnderTest, compiled: Compiled) -> None:
    needs(cache.toolchain, Capability.RUN_KERNELS)
    precise, fast = (cache.compile(*OPERATORS, **each) for each in FILES)
    two = [each for each in OPERATORS if not same_code(precise.kernel(each), fast.kernel(each))]
    if not two:
        raise NotDecidable(f"none of {', '.join(KINDS)} has two kernels")
    for each in two:
        is_worse = is_less_accurate(
            *(measure(cache.toolchain, run, each) for run in (precise, fast))
        )
        if is_worse is None:
            raise NotDecidable(f"{each.type}: both kernels are equally accurate")
        if is_worse and each.type in _by_chance(compiled, FILES):
            raise NotDecidable("kernels differ by chance from one compile to the next")
        assert not is_worse, cache.evidence.found(
            Numbers.WRONG, f"{each.type}: high precision is the less accurate"
        )
