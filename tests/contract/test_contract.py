"""The contract: the central table, options, rule files and verdicts."""

from __future__ import annotations

from itertools import product

import pytest

from pytest_ascendcache.contract import (
    CacheMode,
    Capability,
    CompileOptions,
    DebugConfig,
    Delivered,
    EntryState,
    Fate,
    Level,
    Outcome,
    Source,
    Verdict,
    bystander_fates,
    expected_outcomes,
    foundations,
    is_under_debug,
    load_rules,
    rules,
)
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.rules import RuleFileError
from pytest_ascendcache.contract.verdict import broken_promise

ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
NONE, VALID, DAMAGED = EntryState.NONE, EntryState.VALID, EntryState.DAMAGED

# Mode, whether debugging is on, entry before -> the outcomes that the document allows, as
# "delivered entry".
CENTRAL_TABLE = {
    (ENABLE, False, NONE): {"compiled stored"},
    (ENABLE, False, VALID): {"reused kept"},
    (ENABLE, False, DAMAGED): {"compiled rewritten"},
    (FORCE, False, NONE): {"compiled stored"},
    (FORCE, False, VALID): {"compiled rewritten"},
    (FORCE, False, DAMAGED): {"compiled rewritten"},
    (DISABLE, False, NONE): {"compiled absent"},
    (DISABLE, False, VALID): {"compiled kept"},
    (DISABLE, False, DAMAGED): {"compiled kept"},
    (ENABLE, True, NONE): {"compiled absent"},
    (ENABLE, True, VALID): {"compiled kept"},
    (ENABLE, True, DAMAGED): {"compiled kept"},
    (DISABLE, True, NONE): {"compiled absent"},
    (DISABLE, True, VALID): {"compiled kept"},
    (DISABLE, True, DAMAGED): {"compiled kept"},
    (FORCE, True, NONE): {"compiled absent"},
    (FORCE, True, VALID): {"compiled kept"},
    (FORCE, True, DAMAGED): {"compiled kept"},
}


def test_the_table_has_every_combination():
    assert set(CENTRAL_TABLE) == set(product(CacheMode, (False, True), EntryState))


@pytest.mark.parametrize(("mode", "under_debug", "before"), CENTRAL_TABLE)
def test_central_table(mode, under_debug, before):
    allowed = expected_outcomes(mode, under_debug, before)
    assert {f"{each.delivered.value} {each.entry.value}" for each in allowed} == CENTRAL_TABLE[
        mode, under_debug, before
    ]


@pytest.mark.parametrize("mode", CacheMode)
@pytest.mark.parametrize("before", EntryState)
def test_a_listed_operator_may_lose_its_entry_to_force_alone(mode, before):
    """Force purges the unlisted operators' entries, and may remove a listed one's entry too."""
    allowed = expected_outcomes(mode, True, before, listed=True)
    gone = "compiled removed" if mode is FORCE and before is not NONE else None
    outcomes = {f"{each.delivered.value} {each.entry.value}" for each in allowed}
    assert outcomes == CENTRAL_TABLE[mode, True, before] | ({gone} if gone else set())


@pytest.mark.parametrize(
    ("listed", "operator_type", "operator_name", "expected"),
    [
        (("add_0",), "Add", "add_0", True),
        (("add_0",), "Add", "add_1", False),
        (("add_0",), "Add", "add_01", False),
        (("add_0",), "Add", "Add_0", False),
        (("add",), "add", "other", False),
        (("Add",), "Add", "other", False),
        (("Add",), "Mul", "Add", True),
        (("OpType::Add",), "Add", "other", True),
        (("OpType::Add",), "Add", "", True),
        (("OpType::Add",), "AddN", "other", False),
        (("OpType::AddN",), "Add", "other", False),
        (("OpType::Add",), "Mul", "Add", False),
        (("OpType::Add",), "Mul", "OpType::Add", False),
        (("OpType:Add",), "Add", "other", False),
        (("OpType::",), "Add", "", False),
        (("mul_3", "OpType::Exp", "add_0"), "Add", "add_0", True),
        (("mul_3", "OpType::Exp", "add_0"), "Exp", "exp_9", True),
        (("mul_3", "OpType::Exp", "add_0"), "Mul", "mul_4", False),
        ((), "Add", "add_0", False),
    ],
)
def test_lists(listed, operator_type, operator_name, expected):
    config = DebugConfig(listed=listed)
    options = CompileOptions(debug_config=config)
    assert config.lists(operator_type, operator_name) is expected
    assert is_under_debug(options, operator_type, operator_name) is expected


def test_letter_case_and_the_word_before_a_type_are_open():
    types = ("OpType::ADD", "OpType::add", "opType::Add", "xOpType::Add", "scope/OpType::Add")
    for listed, expected in (*((each, None) for each in types), ("ADD", False)):
        options = CompileOptions(debug_config=DebugConfig(listed=(listed,)))
        assert is_under_debug(options, "Add", "add_0") is expected


@pytest.mark.parametrize("mode", [None, *CacheMode])
@pytest.mark.parametrize(
    ("level", "config", "expected"),
    [
        (None, None, False),
        (0, None, False),
        *((level, None, True) for level in (1, 2, 3, 4)),
        (0, DebugConfig(), True),
        (None, DebugConfig(switches=("dump_cce", "oom")), True),
        (0, DebugConfig(listed=("other",)), False),
        (0, DebugConfig(listed=("OpType::Add",)), True),
        (0, DebugConfig(switches=None, listed=("other",)), False),
        (3, DebugConfig(listed=("other",)), True),
    ],
)
def test_debug_switches_take_operators_out_whatever_the_mode(mode, level, config, expected):
    options = CompileOptions(cache_mode=mode, debug_level=level, debug_config=config)
    assert is_under_debug(options, "Add", "add") is expected


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (DebugConfig(), "op_debug_config = ccec_g\n"),
        (DebugConfig(switches=("oom", "dump_cce")), "op_debug_config = oom,dump_cce\n"),
        (
            DebugConfig(listed=("add_0", "OpType::Exp")),
            "op_debug_config = ccec_g\nop_debug_list = add_0,OpType::Exp\n",
        ),
        (DebugConfig(switches=None, listed=("add_0",)), "op_debug_list = add_0\n"),
        (DebugConfig(switches=None), ""),
    ],
)
def test_debug_config_text(config, text):
    assert config.text() == text


LISTS = DebugConfig(listed=("add",))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (CompileOptions(), Fate.KEPT),
        (CompileOptions(cache_mode=ENABLE), Fate.KEPT),
        (CompileOptions(cache_mode=DISABLE), Fate.KEPT),
        (CompileOptions(cache_mode=FORCE), Fate.REMOVED),
        (CompileOptions(cache_mode=FORCE, debug_level=0), Fate.REMOVED),
        (CompileOptions(cache_mode=FORCE, debug_level=3), Fate.KEPT),
        (CompileOptions(cache_mode=FORCE, debug_config=DebugConfig()), Fate.KEPT),
        (CompileOptions(cache_mode=FORCE, debug_config=LISTS), Fate.REMOVED),
        (CompileOptions(cache_mode=FORCE, debug_config=LISTS, debug_level=1), Fate.KEPT),
        (CompileOptions(cache_mode=ENABLE, debug_config=LISTS), Fate.KEPT),
        (CompileOptions(debug_config=LISTS), Fate.KEPT),
    ],
)
def test_bystanders(options, expected):
    assert bystander_fates(options) == {expected}


def test_options_not_given_are_not_their_defaults():
    assert CompileOptions().effective_mode is DISABLE
    assert CompileOptions() != CompileOptions(cache_mode=DISABLE)
    for mode in CacheMode:
        assert CompileOptions(cache_mode=mode).effective_mode is mode


def test_options_changed_leave_the_original():
    options = CompileOptions()
    assert options.but(soc="Ascend310P3", debug_level=2) == CompileOptions(
        debug_level=2, soc="Ascend310P3"
    )
    assert options == CompileOptions()


def test_an_outcome_reads_like_the_table():
    assert str(Outcome(Delivered.REUSED, Fate.KEPT)) == "reused, entry kept"


# The rules of contract.md, "Cache mode and directory", "Debug switches", "Limits and aging" and
# "Implementation mode", except release-setting, which is a separate gate.
DOCUMENTED = {
    "cache-mode/default-is-disable": "must",
    "cache-mode/enable-stores": "must",
    "cache-mode/enable-reuses": "must",
    "cache-mode/key-separates": "must",
    "cache-mode/key-ignores-names": "should",
    "cache-mode/force-purges-soc": "must",
    "cache-mode/force-spares-other-soc": "must",
    "cache-mode/force-then-enable": "must",
    "cache-mode/disable-is-inert": "must",
    "cache-mode/rejects-unknown-mode": "must",
    "cache-mode/directory-precedence": "must",
    "cache-mode/force-applies-knowledge-base": "must",
    "cache-mode/force-applies-toolchain-change": "must",
    "cache-mode/enable-after-change": "info",
    "cache-mode/transparent": "should",
    "cache-mode/parallel-force": "should",
    "debug/level-bypasses": "must",
    "debug/config-bypasses": "must",
    "debug/list-bypasses-listed": "must",
    "debug/list-caches-unlisted": "must",
    "debug/list-without-options": "info",
    "debug/results-not-cached": "must",
    "debug/outputs": "should",
    "debug/rejects-bad-file": "should",
    "impl-mode/default-is-performance": "must",
    "impl-mode/list-limits": "must",
    "impl-mode/for-all": "must",
    "impl-mode/by-dtype": "must",
    "impl-mode/single-implementation": "must",
    "impl-mode/type-list": "must",
    "impl-mode/precision-file": "must",
    "impl-mode/user-copy": "must",
    "impl-mode/unsupported": "must",
    "impl-mode/rejects-bad": "must",
    "impl-mode/key-separates": "must",
    "impl-mode/accuracy": "must",
    "aging/creates-ini": "must",
    "aging/needs-both": "must",
    "aging/oldest-first": "must",
    "aging/keeps-ratio": "must",
    "aging/hit-renews": "must",
    "aging/soft-limit": "must",
    "aging/minus-one": "must",
    "aging/ini-needs-both-keys": "must",
    "aging/ini-beats-environment": "must",
    "aging/bad-values": "should",
    "aging/boundaries": "info",
    "aging/per-soc": "must",
    "aging/ini-for-all-users": "must",
    "aging/orphans": "should",
    "aging/works-on-relatime": "should",
}


@pytest.mark.parametrize("rule_id", DOCUMENTED)
def test_documented_rules_exist_with_their_level(rule_id):
    assert load_rules()[rule_id].level is Level(DOCUMENTED[rule_id])


@pytest.mark.parametrize("rule", load_rules().values(), ids=lambda rule: rule.id)
def test_rules_are_complete(rule):
    area, _, name = rule.id.partition("/")
    for part in (area, name):
        assert part.replace("-", "").isalpha()
        assert part == part.lower()
    assert rule.title_en.isascii()
    assert not rule.title_en.endswith(".")
    assert any("\u4e00" <= character <= "\u9fff" for character in rule.title_zh)
    assert len(rule.statement) > len(rule.title_en) / 2
    assert rule.statement.endswith(".")
    assert rule.source.document
    assert rule.source.section
    assert str(rule.source) == f"{rule.source.document}: {rule.source.section}"


def test_rules_cannot_be_changed_and_titles_are_distinct():
    table = load_rules()
    with pytest.raises(TypeError):
        table["mine"] = None
    for attribute in ("title_en", "title_zh", "statement"):
        assert len({getattr(each, attribute) for each in table.values()}) == len(table)


def test_what_rules_rest_on_exists_and_has_no_circle():
    table = load_rules()
    for rule in table.values():
        assert {*rule.rests_on, *filter(None, [rule.explained_by])} <= set(table), rule.id
        assert all(rule.id not in foundations(each) for each in foundations(rule.id)), rule.id


@pytest.mark.parametrize("capability", Capability)
def test_every_lacking_capability_can_be_explained(capability):
    assert capability.lacking


RULE = {
    "id": '"a/b"',
    "level": '"must"',
    "title_en": '"Short"',
    "title_zh": '"短"',
    "statement": '"Long."',
    "section": '"1"',
}


@pytest.fixture
def rule_files(tmp_path, monkeypatch):
    """Loads rules from files, given as texts by name."""
    monkeypatch.setattr(rules, "__file__", str(tmp_path / "rules.py"))
    (tmp_path / "rules").mkdir()

    def load(**texts):
        for name, text in texts.items():
            (tmp_path / "rules" / f"{name}.toml").write_text(text, encoding="utf-8")
        return load_rules()

    load_rules.cache_clear()
    yield load
    load_rules.cache_clear()


def rule_text(**changes):
    fields = {key: value for key, value in {**RULE, **changes}.items() if value is not None}
    return "".join(["[[rule]]\n", *(f"{key} = {value}\n" for key, value in fields.items())])


HEAD = 'document = "D"\n'


def test_a_rule_file(rule_files):
    (rule,) = rule_files(one=HEAD + rule_text(capabilities='["run-kernels"]')).values()
    assert rule.id == "a/b"
    assert rule.level is Level.MUST
    assert rule.source == Source("D", "1")
    assert rule.capabilities == {Capability.RUN_KERNELS}


def test_rules_come_in_the_order_of_the_files(rule_files):
    second = HEAD + rule_text(id='"c/d"')
    first = HEAD + rule_text(id='"z/z"') + rule_text()
    assert list(rule_files(b=second, a=first)) == ["z/z", "a/b", "c/d"]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (HEAD + rule_text() + rule_text(), "'a/b' exists twice"),
        *((HEAD + rule_text(**{field: None}), f"['{field}']") for field in RULE),
        (HEAD + rule_text(colour='"red"'), "['colour']"),
        (HEAD + rule_text(level='"maybe"'), "'maybe'"),
        (HEAD + rule_text(capabilities='["fly"]'), "'fly'"),
    ],
)
def test_rule_file_errors(rule_files, text, phrase):
    with pytest.raises(RuleFileError) as error:
        rule_files(one=text)
    assert "one.toml" in str(error.value)
    assert phrase in str(error.value)


def test_one_id_in_two_files(rule_files):
    with pytest.raises(RuleFileError, match=r"two\.toml.*'a/b' exists twice"):
        rule_files(one=HEAD + rule_text(), two=HEAD + rule_text())


@pytest.mark.parametrize("text", [rule_text(), HEAD], ids=["no document", "no rule"])
def test_a_file_that_describes_no_rules(rule_files, text):
    with pytest.raises(RuleFileError, match=r"one\.toml"):
        rule_files(one=text)


@pytest.mark.parametrize(
    ("level", "strict", "verdict"),
    [
        (Level.MUST, False, Verdict.FAIL),
        (Level.MUST, True, Verdict.FAIL),
        (Level.SHOULD, False, Verdict.WARN),
        (Level.SHOULD, True, Verdict.FAIL),
        (Level.INFO, False, Verdict.WARN),
        (Level.INFO, True, Verdict.WARN),
    ],
)
def test_broken_promises(level, strict, verdict):
    assert broken_promise(level, strict) is verdict
    assert broken_promise(level, strict, Harm.LOST_WORK) is verdict


@pytest.mark.parametrize("level", Level)
def test_the_first_six_kinds_of_harm_fail_must_and_should_rules(level):
    failing = [each for each in Harm if broken_promise(level, False, each) is Verdict.FAIL]
    count = {Level.MUST: len(Harm), Level.SHOULD: 6, Level.INFO: 0}[level]
    assert failing == list(Harm)[:count]


def test_what_another_cache_or_edition_leaves_open_may_not_do_harm_all_the_same():
    failing = [
        each for each in Harm if broken_promise(Level.INFO, True, each, True) is Verdict.FAIL
    ]
    assert failing == list(Harm)[:5]  # not a stale kernel


def test_there_are_six_verdicts():
    assert [each.value for each in Verdict] == [
        "pass",
        "fail",
        "warn",
        "known deviation",
        "not applicable",
        "undecided",
    ]
