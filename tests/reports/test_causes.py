"""Causes of broken checks: which checks share a cause, the order of causes, and their sentences."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_ascendcache.contract import Outcome, Verdict
from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Fact,
    Subject,
    SubjectKind,
    Words,
    coded,
    outcome_fact,
)
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REUSED,
    REWRITTEN,
    STORED,
)
from pytest_ascendcache.language import Language
from pytest_ascendcache.reports.cause import Cause
from pytest_ascendcache.reports.causes import causes
from pytest_ascendcache.reports.localise import explanations
from pytest_ascendcache.reports.reasons import reason, sentences
from pytest_ascendcache.reports.requests import request_of
from tests.sample_reports import record

UNLISTED, COMBINED, HEALS = (
    "debug/list-caches-unlisted",
    "combinations/outcome",
    "robust/heals-damaged-entry",
)
COMPILED_KEPT, REUSED_KEPT = Outcome(COMPILED, KEPT), Outcome(REUSED, KEPT)
PAIR = {
    "observed": "compiled, entry kept",
    "expected": "reused, entry kept",
    "facts": [outcome_fact(COMPILED_KEPT, [REUSED_KEPT]).as_dict()],
}
STEM = "te_add_0ef37e82bf918ea8f9ad5bc771693837d4eebde8f8c888998b8bb63caf81f730"


def _step(options: str, outcome: Outcome = COMPILED_KEPT) -> dict[str, Any]:
    command = f"cd /box/work && HOME=/box/home atc --singleop=/box/a.json {options}"
    outcomes = [f"Add(float32[4]): {outcome}"]
    return {"command": command, "ending": "", "outcomes": outcomes, "codes": [coded(outcome)]}


def _broken(
    name: str,
    rule: str,
    message: str = "outcome differs",
    harm: str | None = None,
    verdict: Verdict = Verdict.FAIL,
    **evidence: Any,
) -> dict[str, Any]:
    evidence.setdefault("facts", [Fact.of(Aspect.CLAIM, message).as_dict()])
    data = record(name, rule, verdict, message, **evidence).as_dict()
    return {**data, "harm": harm}


def _cell(number: int, rule: str = COMBINED, **factors: str) -> dict[str, Any]:
    all_factors = {
        "cache_mode": "enable",
        "debug_list": "not-given",
        "limits": "default",
        **factors,
    }
    return _broken(f"test_c.py::test_cell[{number}]", rule, factors=all_factors, **PAIR)


DEBUG = "--op_compiler_cache_mode=enable --op_debug_config=/box/debug.cfg"
PLAIN = "--op_compiler_cache_mode=enable"


def _unlisted(number: int) -> dict[str, Any]:
    steps = [_step(PLAIN, Outcome(COMPILED, STORED)), _step(DEBUG)]
    return _broken(f"test_d.py::test_unlisted[{number}]", UNLISTED, steps=steps, **PAIR)


def _rules(found: list[Cause]) -> list[dict[str, int]]:
    return [dict(each.rules) for each in found]


def test_one_pair_with_one_kind_of_options_is_one_cause() -> None:
    other = {
        "observed": "compiled, entry absent",
        "expected": "compiled, entry stored",
        "facts": [outcome_fact(Outcome(COMPILED, ABSENT), [Outcome(COMPILED, STORED)]).as_dict()],
    }
    stored = _broken("test_d.py::test_an_entry_is_stored", UNLISTED, steps=[_step(DEBUG)], **other)
    (cause,) = causes([_unlisted(1), _unlisted(2), stored])
    assert cause.rules == {UNLISTED: 3}
    assert cause.reason == (
        "with enable --op_debug_config after enable: compiled, entry kept; "
        "expected: reused, entry kept"
    )
    assert cause.repeat == "pytest --ascend-cache test_d.py::test_unlisted[1]"


def test_combinations_follow_the_rule_that_explains_them() -> None:
    cells = [_cell(number, debug_list="others") for number in range(4)]
    fine = [
        record(
            f"test_c.py::test_fine[{number}]",
            COMBINED,
            factors={"cache_mode": mode, "debug_list": "not-given", "limits": limits},
        ).as_dict()
        for number, (mode, limits) in enumerate([("enable", "default"), ("force", "off")])
    ]
    (cause,) = causes([*cells, *fine, _unlisted(1)])
    assert list(cause.rules.items()) == [(UNLISTED, 1), (COMBINED, 4)]
    assert cause.checks[0]["rule"] == UNLISTED


def test_a_combination_says_the_levels_that_explain_it() -> None:
    cells = [_cell(number, debug_list="others") for number in range(4)]
    levels = {"cache_mode": "enable", "debug_list": "not-given", "limits": "default"}
    fine = record("test_c.py::test_fine", COMBINED, factors=levels)
    (cause,) = causes([*cells, fine.as_dict()])
    assert cause.reason.startswith("with debug_list=others: compiled, entry kept")


def test_other_options_other_harm_or_another_verdict_are_causes_of_their_own() -> None:
    plain = _broken("test_e.py::test_plain", "cache-mode/enable-reuses", steps=[_step(PLAIN)])
    crash = _broken("test_f.py::test_crash", HEALS, "it crashed in the reader", "crash")
    words = _broken("test_f.py::test_words", HEALS, "the message is wrong", "misleading")
    asked = "robust/power-loss"
    open_ = _broken("test_f.py::test_open", asked, "nothing tells", verdict=Verdict.UNDECIDED)
    result = causes([plain, words, crash, _unlisted(1), open_])
    assert sorted(map(tuple, _rules(result))) == sorted(
        [(UNLISTED,), (HEALS,), (HEALS,), (asked,), ("cache-mode/enable-reuses",)]
    )
    assert [each.harm for each in result][:2] == ["crash", "misleading"]
    assert result[-1].verdict == "undecided"


def test_what_one_rule_says_with_the_same_options_is_one_cause() -> None:
    checks = [
        _broken(f"test_b.py::test_{number}", HEALS, message, steps=[_step(PLAIN)])
        for number, message in enumerate(["the value was accepted", "the cache was touched"])
    ]
    (cause,) = causes(checks)
    assert cause.also == ("with enable: the cache was touched",)


def test_what_differs_from_check_to_check_is_no_other_cause() -> None:
    messages = [f"no warning names max_op_cache_size and its value {each!r}" for each in "ab"]
    facts = [Fact.seen(Words.MISSING, "no warning").as_dict()]
    checks = [
        _broken(f"test_b.py::test_{number}", rule, message, facts=facts)
        for number, (rule, message) in enumerate(
            zip(["aging/bad-values", "aging/soft-limit"], messages, strict=True)
        )
    ]
    (cause,) = causes(checks)
    assert len(cause.rules) == 2


LIMITED = f"{PLAIN} ASCEND_MAX_OP_CACHE_SIZE=1"


def test_a_rule_explains_those_that_rest_on_it() -> None:
    """Both checks find the same misplaced file: it is not where it belongs, so nothing reads it."""
    place = _broken("test_a.py::test_place", "aging/creates-ini", "no ini is there", "misplaced")
    hand = _broken("test_a.py::test_hand", "aging/ini-for-all-users", "it is not read", "lost-work")
    (cause,) = causes([hand, place])
    assert list(cause.rules) == ["aging/creates-ini", "aging/ini-for-all-users"]
    assert cause.reason == "no ini is there"
    assert cause.also == ("it is not read",)
    assert cause.harm == "lost-work"


def test_names_that_are_believed_are_one_cause_with_all_its_harm() -> None:
    loaded = _broken(
        "test_s.py::test_loaded", "security/verify-before-load", "it was delivered", "wrong-result"
    )
    link = _broken(
        "test_s.py::test_link", "security/no-symlink-follow", "it was removed", "outside-touched"
    )
    (cause,) = causes([link, loaded])
    assert cause.rule == "security/verify-before-load"
    assert (cause.harm, cause.harms) == ("wrong-result", ("wrong-result", "outside-touched"))


def test_the_same_harm_with_the_same_options_is_one_cause() -> None:
    over = {"harm": "misplaced", "verdict": Verdict.WARN, "steps": [_step(LIMITED)]}
    relatime = _broken("test_a.py::test_r", "aging/works-on-relatime", "nothing aged", **over)
    orphan = _broken("test_a.py::test_o", "aging/orphans", "it stays for ever", **over)
    failing = _broken(
        "test_a.py::test_f", "aging/target", "all aged", "misplaced", steps=[_step(LIMITED)]
    )
    assert sorted(map(len, _rules(causes([relatime, orphan, failing])))) == [1, 2]


def test_harm_of_a_combination_is_no_harm_of_the_options_that_explain_it() -> None:
    """In a run with a damaged entry and a debug list, the entry makes the cache unusable."""
    cells = [_cell(number, debug_list="others") for number in range(4)]
    damaged = {**_cell(9, HEALS, debug_list="others"), "harm": "unusable"}
    heals = _broken("test_h.py::test_heals", HEALS, "it stays damaged", "unusable")
    listed = {**_unlisted(1), "harm": "lost-work"}
    plain = {"cache_mode": "enable", "debug_list": "not-given", "limits": "default"}
    fine = record("test_c.py::test_fine", COMBINED, factors=plain).as_dict()
    lost = [{**each, "harm": "lost-work"} for each in cells]
    result = causes([*lost, damaged, heals, listed, fine])
    assert [(each.harm, dict(each.rules)) for each in result] == [
        ("unusable", {HEALS: 2}),
        ("lost-work", {UNLISTED: 1, COMBINED: 4}),
    ]


def test_what_could_not_be_told_is_explained_by_nothing() -> None:
    place = _broken("test_a.py::test_place", "aging/creates-ini", "a", verdict=Verdict.UNDECIDED)
    hand = _broken(
        "test_a.py::test_hand", "aging/ini-for-all-users", "b", verdict=Verdict.UNDECIDED
    )
    assert len(causes([hand, place])) == 2


MODE = Subject(SubjectKind.OPTION, "--op_compiler_cache_mode", "enable")
AGAIN = outcome_fact(Outcome(COMPILED, REWRITTEN), [REUSED_KEPT], subject=MODE).as_dict()
REUSES = "cache-mode/enable-reuses"


def _elementary(rule: str, verdict: Verdict, **evidence: Any) -> dict[str, Any]:
    return _broken(f"test_e.py::test_{rule}", rule, verdict=verdict, elementary=True, **evidence)


def test_a_mode_that_was_seen_to_work_is_not_called_dead() -> None:
    steps = [_step(PLAIN, Outcome(COMPILED, STORED)), _step(PLAIN, Outcome(COMPILED, REWRITTEN))]
    again = _broken("test_d.py::test_again", COMBINED, steps=steps, facts=[AGAIN])
    (dead,) = causes([_elementary(REUSES, Verdict.FAIL, steps=steps, facts=[AGAIN]), again])
    assert "reuses nothing" in dead.sentence(Language.ENGLISH)
    (once,) = causes([_elementary(REUSES, Verdict.PASS), again])
    assert once.sentence(Language.ENGLISH).endswith(
        "an operator is compiled again although its entry is valid"
    )


def test_entries_that_age_in_use_explain_what_is_compiled_again() -> None:
    steps = [_step(PLAIN, Outcome(COMPILED, STORED)), _step(PLAIN, Outcome(COMPILED, REWRITTEN))]
    again = _broken("test_d.py::test_again", COMBINED, "a", "lost-work", steps=steps, facts=[AGAIN])
    limit = Subject(SubjectKind.VARIABLE, "ASCEND_MAX_OP_CACHE_SIZE", "8")
    aged = Fact.seen(Aged.OTHERS, "others age", subject=limit).as_dict()
    aging = _elementary("aging/needs-both", Verdict.FAIL, facts=[aged])
    (cause,) = causes([again, aging, _elementary(REUSES, Verdict.PASS)])
    assert cause.sentence(Language.ENGLISH).startswith("ASCEND_MAX_OP_CACHE_SIZE=8")


def test_what_a_broken_rule_left_open_is_no_cause_of_its_own() -> None:
    open_fact = Fact.of(Aspect.UNDECIDED, "NotDecidable in conformance.test_other")
    unclear = _broken(
        "test_d.py::test_other",
        UNLISTED,
        "no state",
        verdict=Verdict.UNDECIDED,
        facts=[open_fact.as_dict()],
    )
    (cause,) = causes([_unlisted(1), unclear])
    assert cause.verdict == "fail"
    assert cause.rules == {UNLISTED: 2}
    assert len(causes([unclear])) == 1


def test_what_passed_has_no_cause() -> None:
    assert causes([record().as_dict(), _broken("a", HEALS, verdict=Verdict.KNOWN_DEVIATION)]) == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("the cache was touched\nassert {} == {'a': 1}\n  Full diff:", "the cache was touched"),
        (
            'the mode changes a kernel\nassert {b"\\x7fELF\\x02"} == {b"\\x7fELF\\x03"}',
            "the mode changes a kernel",
        ),
        (f"{STEM}: the object is gone", "te_add_0ef37e82…: the object is gone"),
        (f"left: {{'{STEM}.o': 'removed'}}", "left: te_add_0ef37e82….o removed"),
        (
            "the compile ended with exit status 70: ion.py\n  raise it\nTypeError: no str",
            "the compile ended with exit status 70: TypeError: no str",
        ),
        ("/tmp/x/ascendcache0/12-test-a/cache/a.o is gone", "$SANDBOX/cache/a.o is gone"),
    ],
)
def test_a_reason_is_a_sentence(message: str, told: str) -> None:
    assert reason(_broken("a", HEALS, message)) == told


def test_an_aging_that_went_wrong_is_told_with_its_arithmetic() -> None:
    message = (
        "aged entries differ\n  observed: a gone\n  expected: abc gone\n"
        "  idle before the run: a: 43200 s, b: 39600 s, c: 7200 s, d: 60 s\nassert 'a' == 'abc'"
    )
    sizes = [{"run": 1, "before": 9 << 20, "after": 8 << 20, "entries": 4, "removed": 1}]
    broken = _broken(
        "a", "aging/keeps-ratio", message, observed="a gone", expected="abc gone", sizes=sizes
    )
    assert reason(broken) == (
        "1 of 4 entries aged, 3 had to; 2 stayed (idle 2 h to 11 h); "
        "cache 9.0 MB before, 8.0 MB after"
    )


def test_notation_is_no_sentence() -> None:
    message = "{'a', 'b'} == {'a'}\n  Extra items in the left set:\n  'b'"
    assert sentences(message) == []
    assert reason(_broken("a", HEALS, message)) == "what was observed is not what was expected"


def test_a_request_is_its_mode_and_what_is_beside_it() -> None:
    request = request_of(
        "cd /x && ASCEND_MAX_OP_CACHE_SIZE=8 atc --singleop=a --soc_version=Ascend910B1 "
        "--op_compiler_cache_mode=force --op_debug_config=/x/d.cfg --op_debug_level=1"
    )
    assert str(request) == "force ASCEND_MAX_OP_CACHE_SIZE=8 --op_debug_config --op_debug_level=1"
    assert request.families == {"limits", "debug switches"}


def test_levels_that_passed_elsewhere_explain_nothing() -> None:
    broken = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]
    passed = [{"a": "2", "b": "1"}, {"a": "2", "b": "2"}]
    assert explanations(broken, passed) == [{"a": "1"}, {"a": "1"}]
    assert explanations(broken, [*broken, *passed]) == [{}, {}]


def test_each_broken_rule_of_a_release_is_a_cause_that_names_all_problems() -> None:
    lines = "observed: line 1 is bad\nexpected: good\nobserved: line 2 is worse\nexpected: best"
    facts = [Fact.of(Aspect.CLAIM, "observed").as_dict()]
    found = causes(
        [
            _broken("test_r.py::test_file", "release/precision-file-valid", lines,
                    observed="line 1 is bad", expected="good", facts=facts,
                    steps=[_step("--op_compiler_cache_mode=disable")]),
            _broken("test_r.py::test_kept", "release/precision-file-kept", facts=facts),
        ]
    )  # fmt: skip
    assert len(found) == 2
    told = next(each.reason for each in found if each.rule == "release/precision-file-valid")
    assert told == "line 1 is bad; expected: good; also: line 2 is worse; expected: best"
    lines = "\n".join(
        f"observed: kernel {chr(32).join([each * 9] * 9)}\nexpected: good" for each in "abcdefgh"
    )
    (many,) = causes(
        [_broken("test_r.py::test_manifest", "release/manifest", f"{lines}\nand 4 more",
                 observed="kernel a", expected="good", facts=facts)]
    )  # fmt: skip
    assert many.reason.count("; expected: good") == 3
    assert many.reason.endswith("; expected: good; also: 9 more problems")
    lines = "\n".join(
        f"observed: a conversion from /c has te_{each} ({'9 ' * 99})\nexpected: good"
        for each in ("add", "mul", "exp", "sqrt")
    )
    (alike,) = causes(
        [_broken("test_r.py::test_model", "release/model-cached-is-fresh", lines,
                 observed="te_add", expected="good", facts=facts)]
    )  # fmt: skip
    assert alike.reason.endswith("; also: the same of te_mul, te_exp; also: 1 more problem")


def test_what_a_bad_precision_file_leaves_open_is_no_cause_of_its_own() -> None:
    facts = [Fact.of(Aspect.CLAIM, "observed").as_dict()]
    bad = _broken("test_r.py::test_file", "release/precision-file-valid", facts=facts)
    ended = [Fact.of(Aspect.UNDECIDED, "ToolchainError in compile").as_dict()]
    names = ("cached-is-fresh", "cards-get-one-kernel", "manifest")
    with_file, without = (f"--op_compiler_cache_mode=enable{each}" for each in (
        " --op_precision_mode=/x/model.ini", ""
    ))  # fmt: skip

    def not_run(options: str) -> list[dict[str, Any]]:
        more = {"facts": ended, "steps": [_step(options)], "verdict": Verdict.UNDECIDED}
        return [_broken(f"test_r.py::test_{each}", f"release/{each}", **more) for each in names]

    assert len(causes([bad, *not_run(with_file)])) == 1
    assert len(causes([bad, *not_run(without)])) == 2
