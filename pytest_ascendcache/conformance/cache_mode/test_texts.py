"""Document C: files and variables mean the same in every spelling."""

from __future__ import annotations

from itertools import count, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.conformance.kit.judge import aging_facts
from pytest_ascendcache.conformance.kit.shelf import Shelf, environment, ini_path, ini_values
from pytest_ascendcache.conformance.kit.spellings import IDLE
from pytest_ascendcache.conformance.kit.texts import (
    NO_NUMBERS,
    NUMBERS,
    ODD_NUMBERS,
    PLAIN,
    Case,
    Spelling,
    limits,
    lists_of,
    shown,
    spellings,
    taken,
    texts,
)
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    ENABLE,
    KEPT,
    REUSED,
    Outcome,
    rule,
)
from pytest_ascendcache.contract import (
    CompileOptions,
    DebugConfig,
    expected_limits,
    is_under_debug,
    possible_limits,
)
from pytest_ascendcache.contract.facts import outcome_fact
from pytest_ascendcache.contract.subjects import ruling
from pytest_ascendcache.observation import CacheUnderTest, Run
from pytest_ascendcache.operators import OperatorSpec

SWITCHES = ("ccec_g", "oom", "dump_cce", "dump_loc", "ccec_O0", "check_flag")
ITEMS = ("probe_add", "OpType::Exp", "OpType::LeakyRelu", "probe_mul")
_numbers = count()


@pytest.fixture
def four(ascend_operators: dict[str, OperatorSpec]) -> tuple[OperatorSpec, ...]:
    """Operators that lists name or almost name."""
    return tuple(ascend_operators[name] for name in ("add", "exp", "leaky_relu", "mul"))


@st.composite
def _switches(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(SWITCHES), min_size=1, max_size=3, unique=True)))


@rule("debug/list-bypasses-listed")
@texts(5)
@given(
    switches=_switches(),
    listed=lists_of(ITEMS, most=6),
    spelling=spellings(),
    list_first=st.booleans(),
)
def test_a_list_means_its_items_however_it_is_written(
    cache: CacheUnderTest,
    four: tuple[OperatorSpec, ...],
    switches: tuple[str, ...],
    listed: tuple[str, ...],
    spelling: Spelling,
    list_first: bool,
) -> None:
    """Listed operators compile, and entries stay. The others are served if the edition says so."""
    if not cache.root.exists():  # the first text
        cache.warm(*four)
    _judge_list(cache, four, DebugConfig(switches, listed), spelling, list_first)


@rule("debug/list-bypasses-listed")
def test_a_list_in_which_everything_is_odd(
    cache: CacheUnderTest, four: tuple[OperatorSpec, ...]
) -> None:
    """A node that differs from a listed one only in its name follows the mode, too."""
    cache.warm(*four)
    twin = four[0].named("probe_add_2")
    cache.learn(twin, cache.entry(four[0]).stem, cache.options)
    listed = ("probe_add", "PROBE_MUL", "OpType::Leaky", "OpType::Exp")
    odd = Spelling("\r\n", comma=", ", ended=False, between="# a note\n", trailing=" ")
    # In a single model nothing would tell whose kernel is whose.
    together = (four, (twin,)) if cache.as_model else ((*four, twin),)
    for operators in together:
        _judge_list(cache, operators, DebugConfig(("dump_cce",), listed), odd, list_first=True)


def _judge_list(
    cache: CacheUnderTest,
    operators: tuple[OperatorSpec, ...],
    config: DebugConfig,
    spelling: Spelling,
    list_first: bool,
) -> None:
    switches, listed = config.switches or (), config.listed or ()
    lines = [("op_debug_config", ",".join(switches)), ("op_debug_list", ",".join(listed))]
    path = cache.work / f"list{next(_numbers)}.cfg"

    def attempt(text: str) -> Run:
        path.write_bytes(text.encode())
        return cache.attempt(*operators, mode=ENABLE, debug_file=path)

    text = spelling.write(lines[::-1] if list_first else lines).decode()
    run = taken(text, attempt, cache.evidence, path.name, not {*listed} <= {*ITEMS})
    options = CompileOptions(cache_mode=ENABLE, debug_config=config)
    reading = {
        len(operators): ": as if everything were listed",
        0: ": as if nothing were listed",
    }.get(sum(run[each].delivered is COMPILED for each in operators), "")
    for each in operators:
        under = is_under_debug(options, each.type, each.name, cache.edition)
        ways = {True: (COMPILED,), False: (REUSED,), None: (COMPILED, REUSED)}[under]
        expected = [Outcome(way, KEPT) for way in ways]
        detail = (
            f"{each.name}, a {each.type}, is {'' if config.lists(each.type, each.name) else 'not '}"
            f"listed in {shown(path.read_bytes())}: {run[each]}, not "
            f"{' or '.join(map(str, expected))}{reading}"
        )
        if run[each] not in expected:
            fact = outcome_fact(run[each], expected, subject=ruling(options), detail=detail)
            require_none([fact], cache.evidence)


def _limits(ini: dict[str, str], size: str | None = None, ratio: str | None = None) -> Case:
    return {"ini": ini, "size": size, "ratio": ratio, "spelling": PLAIN}


_ODD = (("0550", "066"), ("0580", "019"), ("+310", "+66"))
_ODD_LIMITS = (
    _limits(ini_values("-1", 50)),
    _limits(ini_values("1", 50)),  # the smallest limit
    *(_limits(ini_values(*odd), "600", "100") for odd in _ODD),
    *(
        # If the file has no valid numbers, the variables count.
        _limits(ini_values(*numbers), *odd)
        for numbers, odd in zip(
            zip(NO_NUMBERS[::2], NO_NUMBERS[1::2], strict=True), cycle((*_ODD, (None, None)))
        )
    ),
)


def _is_odd(name: str, value: str) -> bool:
    """Whether a limit is no plain number, or no share."""
    return value not in NUMBERS or ("ratio" in name.lower() and not 1 <= int(value) <= 100)


@rule("aging/ini-needs-both-keys")
@texts(6, _ODD_LIMITS)
@given(
    ini=limits(),
    size=st.sampled_from([None, *NUMBERS, *ODD_NUMBERS, *NO_NUMBERS]),
    ratio=st.sampled_from([None, *NUMBERS, *ODD_NUMBERS, *NO_NUMBERS]),
    spelling=spellings(),
)
def test_limits_are_what_file_and_variables_say(
    cache: CacheUnderTest,
    add: OperatorSpec,
    ini: dict[str, str],
    size: str | None,
    ratio: str | None,
    spelling: Spelling,
) -> None:
    """Six entries of 100 MB, idle for hours: those that go show which limits a run used."""
    if not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    made = cache.sandbox / "as-made.ini"
    if not cache.root.exists():
        keep_access_times(cache.sandbox, keep=False)
        cache.warm(add)
        for each in cache.layout.ini_candidates:
            if each.exists():
                made.write_bytes(each.read_bytes())
    cache.marks = False
    shelf = Shelf(cache).lay(*IDLE)
    path = ini_path(cache)
    values = cache.edition.ini_values(ini)
    text = spelling.write(list(values.items()), "[op_compiler_cache]").decode()
    variables = environment(size, ratio)

    def attempt(ini_text: str) -> Run:
        path.write_bytes(ini_text.encode())
        return cache.attempt(add, mode=ENABLE, environment=variables)

    odd = {name: value for name, value in {**values, **variables}.items() if _is_odd(name, value)}
    run = taken(text, attempt, cache.evidence, path.name, not odd.keys().isdisjoint(values), odd)
    expected = expected_limits(ini or None, variables)
    aging = shelf.expected(run, expected)
    shelf.let_store(run, aging.must_go)
    gone = shelf.gone()
    possible = possible_limits(ini or None, variables)
    if any(shelf.expected(run, each).allows(gone) for each in possible):
        return
    subject = shelf.limiting(run)
    path.unlink(missing_ok=True)
    if made.exists() and not any(key.encode() in made.read_bytes() for key in cache.edition.ini):
        # The toolchain's own file sets no limits. Without it a toolchain may empty the cache.
        path.write_bytes(made.read_bytes())
    shelf = Shelf(cache).lay(*IDLE)
    shelf.let_store(cache.compile(add, mode=ENABLE, environment=variables), gone)
    detail = (
        f"op_cache.ini {text.encode()!r}, {variables}: {gone or 'none'} gone, "
        f"not {''.join(sorted(aging.must_go)) or 'none'} ({expected.megabytes} MB, "
        f"{expected.ratio} %): "
        f"{'as without op_cache.ini' if shelf.gone() == gone else 'as by limits of its own'}"
    )
    require_none(aging_facts(aging, gone, "", detail, subject=subject), cache.evidence)
