"""The judge of a run, as a table: what was known, what the run did, and the facts that follow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from pytest_ascendcache.conformance.kit.judge import Judge, Known, aging_facts
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.told import counted, require_none, told
from pytest_ascendcache.contract import (
    Aging,
    CacheLimits,
    CacheMode,
    CompileOptions,
    DebugConfig,
    Fate,
    Outcome,
    PrecisionFile,
)
from pytest_ascendcache.contract.editions import default
from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Delivery,
    Ending,
    Fact,
    FactWitness,
)
from pytest_ascendcache.contract.harm import Harm, harm_of
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
)
from pytest_ascendcache.observation import Evidence

ADD, EXP = operator_of("Add", (4, 8), (4, 8), name="add"), operator_of("Exp", (4, 8), name="exp")
HIT, NEW, HEALED = Outcome(REUSED, KEPT), Outcome(COMPILED, STORED), Outcome(COMPILED, REWRITTEN)
STAYS, BYPASSED, PURGED = (Outcome(COMPILED, fate) for fate in (KEPT, ABSENT, REMOVED))
EVERY = {Outcome(source, fate) for source in (COMPILED, REUSED) for fate in Fate}

ENABLE, FORCE, DISABLE = ({"cache_mode": mode} for mode in CacheMode)
LEVEL = {**ENABLE, "debug_level": 1}
ADD_LISTED = DebugConfig(("ccec_g",), ("add",))
BOTH_LISTED = DebugConfig(("ccec_g",), ("add", "OpType::Exp"))


def judge(options: dict[str, Any], **more: Any) -> Judge:
    return Judge(CompileOptions(**options), default(), (ADD, EXP), run=3, **more)


@pytest.mark.parametrize(
    ("options", "known", "allowed"),
    [
        (ENABLE, Known.NONE, {NEW}),
        (ENABLE, Known.VALID, {HIT}),
        (ENABLE, Known.DAMAGED, {HEALED, STAYS, PURGED}),
        (ENABLE, Known.OUTDATED, {HIT, HEALED, NEW}),
        (ENABLE, Known.VOID, {HEALED, NEW, Outcome(COMPILED, REMOVED)}),
        (ENABLE, Known.ALIKE, {HIT}),
        (ENABLE, Known.UNCLEAR, {HIT, NEW}),
        (FORCE, Known.VALID, {HEALED}),
        (FORCE, Known.OUTDATED, {HEALED}),
        (DISABLE, Known.NONE, {BYPASSED}),
        (DISABLE, Known.VALID, {STAYS}),
        (DISABLE, Known.OUTDATED, {STAYS}),
        (DISABLE, Known.ALIKE, {STAYS, BYPASSED}),
        (LEVEL, Known.VALID, {STAYS}),
        (LEVEL, Known.ALIKE, {STAYS, BYPASSED}),
        ({**ENABLE, "debug_config": ADD_LISTED}, Known.VALID, {STAYS}),
        ({**FORCE, "debug_config": ADD_LISTED}, Known.VALID, {STAYS, PURGED}),
        ({**ENABLE, "debug_config": DebugConfig(("ccec_g",), ("exp",))}, Known.VALID, {HIT}),
    ],
)
def test_an_outcome_is_judged_by_the_table(
    options: dict[str, Any], known: Known, allowed: set[Outcome]
) -> None:
    judged = judge(options)
    assert {each for each in EVERY if not judged.outcome(ADD, each, known)} == allowed


def test_nothing_is_said_of_an_entry_that_the_documents_leave_open() -> None:
    judged = judge(ENABLE)
    assert [judged.outcome(ADD, each, Known.OPEN) for each in EVERY] == [[]] * len(EVERY)
    assert [judged.other(each, Known.OPEN, "x") for each in Fate] == [[]] * len(Fate)


def test_a_wrong_outcome_names_what_is_under_test() -> None:
    (fact,) = judge(FORCE).outcome(ADD, HIT, Known.VALID)
    assert fact.code == "outcome reused/kept, not compiled/rewritten"
    assert (fact.run, fact.witness) == (3, FactWitness.MARKER)
    assert str(fact.subject) == "--op_compiler_cache_mode=force"
    assert harm_of([fact]) is Harm.STALE
    assert told([fact]).splitlines() == [
        str(ADD),
        "observed: reused, entry kept",
        "expected: compiled, entry rewritten",
    ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (LEVEL, "--op_debug_level=1"),
        ({**ENABLE, "debug_config": DebugConfig()}, "--op_debug_config"),
        ({**ENABLE, "debug_config": ADD_LISTED}, "op_debug_list"),
        ({}, "--op_compiler_cache_mode"),
    ],
)
def test_a_debug_switch_rules_over_the_mode(options: dict[str, Any], named: str) -> None:
    (fact,) = judge(options).outcome(ADD, NEW, Known.NONE)
    assert str(fact.subject) == named


@pytest.mark.parametrize(
    ("options", "allowed"),
    [(ENABLE, {HEALED}), (FORCE, {HEALED}), (DISABLE, EVERY), (LEVEL, EVERY)],
)
def test_only_a_run_that_uses_the_cache_has_to_heal(
    options: dict[str, Any], allowed: set[Outcome]
) -> None:
    assert {each for each in EVERY if not judge(options).healing(ADD, each)} == allowed


@pytest.mark.parametrize(
    ("options", "known", "soc", "allowed"),
    [
        (ENABLE, Known.VALID, None, {KEPT}),
        (FORCE, Known.VALID, None, {REMOVED}),
        (FORCE, Known.VALID, "Ascend310P3", {KEPT}),
        ({**FORCE, "debug_level": 1}, Known.VALID, None, {KEPT}),
        ({**FORCE, "debug_config": ADD_LISTED}, Known.VALID, None, {REMOVED}),
        ({**FORCE, "debug_config": BOTH_LISTED}, Known.VALID, None, {KEPT, REMOVED}),
        (ENABLE, Known.DAMAGED, None, {KEPT, REMOVED, REWRITTEN}),
        (FORCE, Known.DAMAGED, None, {REMOVED}),
        (ENABLE, Known.VOID, None, {KEPT, REMOVED}),
        (ENABLE, Known.VOID, "Ascend310P3", {KEPT, REMOVED}),
    ],
)
def test_other_entries_stay_unless_the_run_purges_them(
    options: dict[str, Any], known: Known, soc: str | None, allowed: set[Fate]
) -> None:
    judged = judge(options)
    assert {each for each in Fate if not judged.other(each, known, "x", soc)} == allowed


def test_a_kernel_that_is_not_its_own_is_stale_or_anothers() -> None:
    judged = judge({**ENABLE, "precision_file": PrecisionFile.of({"Add": "high_precision"})})
    stale, another = judged.kernel(ADD, Delivery.STALE), judged.kernel(ADD)
    assert [harm_of([each]) for each in (stale, another)] == [Harm.STALE, Harm.WRONG_RESULT]
    assert str(another.subject) == "--op_precision_mode"
    assert told([another]) == f"{ADD}: not the kernel of a fresh compile"


LIMITS = CacheLimits(8, 50)
DUE = Aging(frozenset("ab"), frozenset("d"))  # c may go or stay


@pytest.mark.parametrize(
    ("options", "gone", "observed"),
    [
        (ENABLE, "ab", None),
        (ENABLE, "abc", None),
        (ENABLE, "a", Aged.TOO_FEW),
        (ENABLE, "abd", Aged.TOO_MANY),
        (ENABLE, "ad", Aged.OTHERS),
        (FORCE, "abcd", None),
        (FORCE, "abc", Aged.TOO_FEW),
        (DISABLE, "", None),
        (DISABLE, "c", Aged.TOO_MANY),
        (LEVEL, "", None),
        (LEVEL, "ab", Aged.TOO_MANY),
        ({**ENABLE, "debug_config": BOTH_LISTED}, "", None),
        ({**ENABLE, "debug_config": BOTH_LISTED}, "ab", None),
        ({**ENABLE, "debug_config": BOTH_LISTED}, "d", Aged.OTHERS),
    ],
)
def test_idle_entries_age_as_mode_and_limits_say(
    options: dict[str, Any], gone: str, observed: Aged | None
) -> None:
    facts = judge(options).aging(DUE, "abcd", gone, "", LIMITS)
    assert [each.observed for each in facts] == ([] if observed is None else [observed.value])


def test_aging_is_told_with_its_limits() -> None:
    facts = judge(ENABLE).aging(DUE, "abcd", "ad", "d", LIMITS)
    assert told(facts).splitlines() == [
        "observed: of idle entries ad gone",
        "expected: ab (8 MB, 50 %)",
        "half of an aged entry was left behind: d",
    ]
    assert [each.observed for each in facts] == ["others", "half"]


@pytest.mark.parametrize(
    ("must_go", "gone", "torn", "observed"),
    [("", "", "", []), ("ab", "", "", ["too-few"]), ("", "a", "a", ["too-many", "half"])],
)
def test_exact_aging_is_judged_alike(
    must_go: str, gone: Collection[str], torn: str, observed: list[str]
) -> None:
    due = Aging(frozenset(must_go), frozenset("abcd") - {*must_go})
    assert [each.observed for each in aging_facts(due, gone, torn, "...")] == observed


@pytest.mark.parametrize(
    ("code", "ending"),
    [(1, Ending.FAILURE), (-11, Ending.CRASH), (-9, Ending.FAILURE), (None, Ending.NO_END)],
)
def test_an_ending_is_read_from_the_status(code: int | None, ending: Ending) -> None:
    class Run:
        returncode = code

    (fact,) = judge(ENABLE).ending(Run(), "it failed")  # type: ignore[arg-type]
    assert (fact.observed, fact.run, fact.detail) == (ending.value, 3, "it failed")
    assert judge(ENABLE).ending(Run(), "") == []  # type: ignore[arg-type]


# --- facts as text --------------------------------------------------------------------------


def test_equal_facts_are_told_once_for_all_that_they_are_about() -> None:
    facts = [Fact.seen(Delivery.ANOTHER, "wrong", each, run=2) for each in "abcde"]
    other = Fact.seen(Delivery.ANOTHER, "wrong", "f", run=1)
    assert told(facts) == "a, b, c and 2 more: wrong"
    assert told([*facts, other], {1: "enable", 2: "force"}).splitlines() == [
        *("run 2, force: a, b, c and 2 more", "wrong"),
        *("run 1, enable: f", "wrong"),
    ]


def test_another_entry_is_told_by_its_fate() -> None:
    (fact,) = judge(FORCE).other(KEPT, Known.VALID, "")
    assert told([fact]) == (
        "observed: the entry of another operator kept\n"
        "expected: the entry of another operator removed"
    )


def test_names_of_idle_entries_are_listed_or_counted() -> None:
    assert counted("ba") == "ab"
    assert counted("") == "none"
    assert counted(map(str, range(27))) == "27"


def test_facts_reach_the_evidence_before_the_check_breaks() -> None:
    evidence, fact = Evidence(), Fact.of(Aspect.CLAIM, "so", detail="it is not so")
    require_none([], evidence)
    with pytest.raises(AssertionError, match="it is not so\nmore"):
        require_none([fact], evidence, "more")
    assert evidence.facts == [fact]
    assert harm_of(evidence.facts) is Harm.NOT_DETERMINED
