"""Document I: the meaning of type lists and precision files does not depend on their spelling.

The bytes of a delivered kernel show its mode: they equal a fresh kernel of that mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.conformance.kit.implementations import EXP, SQRT, TANH, tables_of
from pytest_ascendcache.conformance.kit.texts import (
    ODDITIES,
    TOGETHER,
    Spelling,
    near,
    shown,
    spellings,
    taken,
    texts,
)
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, rule
from pytest_ascendcache.contract import PrecisionFile, SelectMode
from pytest_ascendcache.contract.facts import Delivery, Subject, SubjectKind
from pytest_ascendcache.contract.impl_mode import ModeTable
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain

OPERATORS = (EXP, SQRT, TANH)
NODES = "[ByNodeName]"
MODES = st.sampled_from([HIGH_PRECISION, HIGH_PERFORMANCE])
TYPES = tuple(each.type for each in OPERATORS)
NAMES = tuple(each.name for each in OPERATORS)
ModeOf = Callable[[OperatorSpec, str], str]


@pytest.fixture
def fresh(cache: CacheUnderTest, toolchain: Toolchain) -> ModeOf:
    """Returns the digest of an operator's fresh kernel in a mode."""
    tables = tables_of(toolchain)
    if not all(map(tables.has_two, OPERATORS)):
        raise NotDecidable("the toolchain has not two implementations of each operator here")

    known: dict[str, dict[OperatorSpec, str]] = {}

    def digest(operator: OperatorSpec, mode: str) -> str:
        if mode not in known:
            file = PrecisionFile.of(dict.fromkeys(TYPES, mode))
            options = cache.options.but(precision_file=file)
            one, other = (cache.fresh_digests(OPERATORS, None, options) for _ in "12")
            if one != other:
                raise NotDecidable("two fresh compiles give different kernels")
            known[mode] = one
        return known[mode][operator]

    return digest


OTHER = {HIGH_PRECISION: HIGH_PERFORMANCE, HIGH_PERFORMANCE: HIGH_PRECISION}


@st.composite
def _lines(draw: st.DrawFn, words: tuple[str, ...], default: str) -> list[tuple[str, str]]:
    """Lines with either mode for some of the words, and with the mode other than ``default`` for
    texts that resemble one of the words."""
    exact = st.tuples(st.sampled_from(words), MODES)
    nearly = st.tuples(st.one_of(*map(near, words)), st.just(OTHER[default]))
    return draw(st.lists(st.one_of(exact, nearly), min_size=1, max_size=4))


@st.composite
def _files(draw: st.DrawFn) -> str:
    """A precision file. It ends with a line for every type, over which earlier lines win."""
    default, spelling = draw(MODES), draw(spellings())
    lines = [*draw(_lines(TYPES, default)), *((kind, default) for kind in TYPES)]
    content = spelling.write(lines, draw(st.sampled_from(["", "[ByOpType]"]))).decode()
    if draw(st.booleans()):
        behind = replace(spelling, mark=False)
        section = behind.write(draw(_lines(NAMES, default)), NODES).decode()
        content += ("" if spelling.ended else spelling.end) + section
    return content


def _plain(spelling: Spelling, section: str) -> str:
    """A file that names every type, and a node in a scope."""
    modes = (HIGH_PRECISION, HIGH_PERFORMANCE, HIGH_PRECISION)
    types = spelling.write(list(zip(TYPES, modes, strict=True)), section)
    behind = replace(spelling, mark=False)
    names = behind.write([(f"scope/{SQRT.name}", HIGH_PRECISION)], NODES)
    return (types + (b"" if spelling.ended else spelling.end.encode()) + names).decode()


OTHER_TYPES = (
    *("Gelu", "Mish", "Sigmoid", "FastGelu", "RealDiv", "Log", "Swish", "Rsqrt", "Reciprocal"),
    *("Pow", "Erf", "SoftmaxV2", "LayerNorm", "BatchMatMul", "ReduceMeanD"),
)
"""Types that make a list or file long. They precede the compiled types."""


def _long(spelling: Spelling) -> str:
    """A file in which the relevant lines come late: types after others, a node after 13 KB."""
    modes = (HIGH_PRECISION, HIGH_PERFORMANCE, HIGH_PRECISION)
    others = [(kind, HIGH_PERFORMANCE) for kind in OTHER_TYPES]
    types = spelling.write([*others, *zip(TYPES, modes, strict=True)])
    nodes = [*(f"{'block' * 9}/{number}" for number in range(200)), SQRT.name]
    return (types + spelling.write([(each, HIGH_PRECISION) for each in nodes], NODES)).decode()


SECTIONS = ("", "[ByOpType]")
_FILES = (_long(Spelling()), *(_plain(each, section) for each in ODDITIES for section in SECTIONS))
_ODD_FILES = (
    # Byte order marks, line ends and empty lines are odd before a section's name as well.
    *(_plain(each, SECTIONS[place % 2]) for place, each in enumerate(TOGETHER)),
    _long(Spelling(trailing=" ", between="# a note\n")),
)


@rule("impl-mode/precision-file")
@texts(8, [{"content": each} for each in _ODD_FILES], alone=[{"content": each} for each in _FILES])
@given(content=_files())
def test_a_precision_file_means_its_lines_however_it_is_written(
    cache: CacheUnderTest, fresh: ModeOf, content: str
) -> None:
    def attempt(text: str) -> Run:
        return cache.attempt(*OPERATORS, mode=ENABLE, precision_file=PrecisionFile(text))

    run = taken(content, attempt, cache.evidence)

    def is_as_said(each: OperatorSpec, text: str) -> bool:
        mode = ModeTable.read(text).mode(each)
        return mode is None or run.unmarked_sha256(each) == fresh(each, mode)

    other = f"?{content[1:]}"
    marked = content.startswith("\ufeff") and all(is_as_said(each, other) for each in OPERATORS)
    reading = ": as if the byte order mark were a part of the first line" if marked else ""
    for each in OPERATORS:
        detail = (
            f"{each.name}, a {each.type}, is not of {ModeTable.read(content).mode(each)} as "
            f"{shown(content)} says{reading}"
        )
        subject = Subject(SubjectKind.OPTION, "--op_precision_mode")
        assert is_as_said(each, content), cache.evidence.found(
            Delivery.ANOTHER, detail, subject=subject
        )


PLAIN_MODES = (SelectMode.HIGH_PRECISION, SelectMode.HIGH_PERFORMANCE)
Digests = dict[OperatorSpec, str]


@pytest.fixture
def unlisted(cache: CacheUnderTest) -> Callable[[], Digests]:
    """Returns the digests of operators outside of a list, which must not depend on the mode."""
    known: list[Digests] = []

    def digests() -> Digests:
        if not known:
            one, other = (_delivered(cache, mode, OTHER_TYPES) for mode in PLAIN_MODES)
            for each in OPERATORS:
                assert one[each] == other[each], f"{each.type} is not in {list(OTHER_TYPES)}"
            known.append(one)
        return known[0]

    return digests


def _delivered(cache: CacheUnderTest, mode: SelectMode, listed: Sequence[str]) -> Digests:
    run = cache.compile(*OPERATORS, mode=ENABLE, select_implmode=mode, implmode_types=tuple(listed))
    return {each: run.unmarked_sha256(each) for each in OPERATORS}


@rule("impl-mode/type-list")
@texts(6, [{"listed": [*OTHER_TYPES, *TYPES[:2]], "mode": mode} for mode in PLAIN_MODES])
@given(
    listed=st.lists(
        st.one_of(st.sampled_from(TYPES), *(near(kind) for kind in TYPES)), min_size=2, max_size=8
    ),
    mode=st.none(),
)
def test_a_type_list_means_its_types(
    cache: CacheUnderTest,
    fresh: ModeOf,
    unlisted: Callable[[], Digests],
    listed: list[str],
    mode: SelectMode | None,
) -> None:
    """Listed types follow the mode, others do not. Without a given mode, this uses the one that the
    fewest operators have by default."""
    others = unlisted()
    if mode is None:
        mode = max(
            PLAIN_MODES, key=lambda one: sum(others[op] != fresh(op, one.value) for op in OPERATORS)
        )
    delivered = _delivered(cache, mode, listed)
    subject = Subject(SubjectKind.OPTION, "--optypelist_for_implmode", ",".join(listed))
    for each in OPERATORS:
        due, detail = others[each], f"{each.type} is not in {listed}"
        if each.type in listed:
            due = fresh(each, mode.value)
            detail = f"{each.type} is in {listed} and is not of the mode"
        assert delivered[each] == due, cache.evidence.found(
            Delivery.ANOTHER, detail, subject=subject
        )
