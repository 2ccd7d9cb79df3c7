"""Editions of the documents: which edition judges a version, and how editions differ."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_ascendcache.contract import (
    AgedEntry,
    CacheLimits,
    CacheMode,
    CompileOptions,
    DebugConfig,
    EntryState,
    Level,
    bystander_fates,
    expected_aging,
    expected_limits,
    expected_outcomes,
    is_under_debug,
    load_rules,
)
from pytest_ascendcache.contract.changes import Advice, ChangeKind, advice, changes
from pytest_ascendcache.contract.editions import (
    CANN,
    DEFAULT_NAMES,
    Edition,
    EditionFileError,
    NoEditionError,
    chosen_for,
    chosen_for_parts,
    default,
    editions,
    editions_of,
    foreign_names,
    named,
    version_key,
)
from pytest_ascendcache.language import Language
from pytest_ascendcache.reference.edition import RELEASES
from pytest_ascendcache.reports.upgrade import compared

CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("version", "edition"),
    [
        ("5.0.4.6", "5.0"),
        ("5.1.RC2", "5.0"),
        ("6.0.1", "6.0"),
        ("6.3.RC1", "6.0"),
        ("6.2.RC2", "7.0"),
        ("23.0.RC2", "7.0"),
        ("7.0.0", "7.0"),
        ("8.0.RC1", "8.0.RC2"),
        ("8.0.RC2.2", "8.0.RC2"),
        ("8.0.RC3.alpha003", "8.0.RC3"),
        ("8.0.0", "8.0"),
        ("8.0.1", "8.0"),
        ("8.1.RC1", "8.1"),
        ("8.2.RC1.alpha001", "8.2"),
        ("v8.5.0", "8.5"),
        ("v8.5.0+changes", "8.5"),
        ("v9.0.0", "9.0"),
        ("v9.1.0-beta.1", "9.1"),
    ],
)
def test_a_version_is_judged_by_its_own_edition(version: str, edition: str) -> None:
    chosen = chosen_for(version)
    assert (chosen.edition.name, chosen.notice, chosen.unsure) == (edition, "", "")


@pytest.mark.parametrize("version", ["v9.2.0-beta.1", "9.3.0", "10.0.RC1"])
def test_a_newer_version_is_judged_by_the_newest_edition_with_a_notice(version: str) -> None:
    chosen = chosen_for(version)
    assert chosen.edition == editions_of(CANN)[-1]
    assert f"CANN {version} is newer than the newest edition known" in chosen.notice
    assert chosen.unsure == ""


@pytest.mark.parametrize("version", ["", "version unknown", "ffdcbc9f7abc", "files 01ab", "3.1"])
def test_a_version_that_tells_nothing_is_not_guessed(version: str) -> None:
    assert chosen_for(version).unsure


def test_parts_of_different_editions_are_told() -> None:
    assert chosen_for_parts({"toolkit": "8.0.0", "opp": ""}).edition.name == "8.0"
    assert not chosen_for_parts({"toolkit": "8.5.0", "opp": "8.5.1"}).unsure
    unsure = chosen_for_parts({"toolkit": "8.0.0", "opp": "7.0.0"}).unsure
    assert unsure == "its parts belong to different editions (toolkit 8.0.0, opp 7.0.0)"
    assert chosen_for_parts({"toolkit": "", "opp": ""}).unsure


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('debug_config = "open"', r"5\.0: debug_config is 'opne', not one of bypasses, open"),
        ('debug_list = "open"', r"5\.0: debug_list is 'opne', not one of listed, everything, open"),
        ('product = "cann"', r"5\.0: product is 'opne', not one of cann, "),
        ("idle = 0", r"5\.0: idle is 'opne', not like 1800"),
        ("debug_levels = [1, 2]", r"5\.0: debug_levels is 'opne', not like frozenset"),
    ],
)
def test_a_misspelt_value_is_refused(
    monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    def misspelt(path: Path, encoding: str) -> str:
        text = path.read_bytes().decode(encoding)
        assert line in text
        return text.replace(line, f'{line.partition(" ")[0]} = "opne"', 1)

    monkeypatch.setattr(Path, "read_text", misspelt)
    editions.cache_clear()
    with pytest.raises(EditionFileError, match=message):
        editions()


def test_editions_are_ordered_and_named() -> None:
    for product in DEFAULT_NAMES:
        family = editions_of(product)
        assert list(family) == sorted(family)
        assert default(product) in family
    assert named("8.0.rc3") == default()
    with pytest.raises(NoEditionError, match=r"'4\.0'"):
        named("4.0")
    with pytest.raises(TypeError, match="two products"):
        assert named("7.0") < named("torchair-7.3")
    keys = [version_key(each) or () for each in ("8.0.RC3.alpha1", "8.0.0", "8.1.RC1", "8.1.1")]
    assert keys == sorted(set(keys))


def test_the_reference_plays_every_edition() -> None:
    assert list(RELEASES) == [each.name for each in editions_of(CANN)]


@pytest.mark.parametrize("edition", editions_of(CANN), ids=lambda each: each.name)
def test_contract_and_reference_read_the_same_names(edition: Edition) -> None:
    """The two readings share no code, so this test checks that they agree."""
    played = RELEASES[edition.name]
    assert (played.levels, played.ini) == (edition.debug_levels, edition.ini)
    assert (played.variables, played.share_unit) == (edition.variables, edition.ratio_unit)
    if edition.idle or not edition.ini:  # the contract leaves the idle time open for 7.0
        assert played.idle_ns == edition.idle * 10**9
    assert played.cache_path == edition.cache_path
    if edition.debug_list != "open":
        assert played.list_excepts == (edition.debug_list == "listed")


def test_the_default_edition_is_that_of_the_rules_own_texts() -> None:
    assert load_rules() == load_rules(*(default(product) for product in DEFAULT_NAMES))
    assert not any(rule.promised_by for rule in load_rules().values())


@pytest.mark.parametrize("edition", editions(), ids=lambda each: each.name)
def test_every_rule_has_both_languages_in_every_edition(edition: Edition) -> None:
    for rule in load_rules(edition).values():
        assert CHINESE.search(rule.statement_zh), rule.id
        assert rule.statement.endswith("."), rule.id
        if rule.promised_by:
            assert rule.level is Level.INFO
        if rule.product == edition.product:
            assert str(edition) in rule.source.document
            assert "{" not in rule.source.document + rule.source.document_zh


def test_what_a_later_edition_promises_is_info() -> None:
    rule = load_rules(named("6.0"))["aging/minus-one"]
    assert (rule.level, rule.promised_by) == (Level.INFO, "CANN 8.0.RC2")
    assert rule.statement.startswith("CANN 8.0.RC2 promises this, CANN 6.0 does not yet: ")
    gone = load_rules(named("torchair-26.0"))["static-kernel/mode"]
    assert gone.statement.startswith("Ascend PyTorch 7.3.0 promised this, ")


LISTED = DebugConfig(listed=("OpType::Add",))


@pytest.mark.parametrize(
    ("edition", "options", "add", "exp"),
    [
        ("5.0", {"debug_level": 3}, False, False),
        ("5.0", {"debug_level": 2}, True, True),
        ("5.0", {"debug_config": DebugConfig()}, None, None),
        ("6.0", {"debug_level": 3}, True, True),
        ("7.0", {"debug_config": LISTED}, True, True),
        ("8.0.RC2", {"debug_config": LISTED}, True, None),
        ("8.0.RC3", {"debug_config": LISTED}, True, False),
        ("8.5", {"debug_config": LISTED}, True, None),
        ("9.0", {"debug_config": LISTED}, True, False),
    ],
)
def test_debug_switches_by_edition(
    edition: str, options: dict[str, object], add: bool | None, exp: bool | None
) -> None:
    compile_options = CompileOptions().but(**options)
    assert is_under_debug(compile_options, "Add", "a", named(edition)) is add
    assert is_under_debug(compile_options, "Exp", "e", named(edition)) is exp


def test_what_the_document_leaves_open_allows_both() -> None:
    mode, valid = CacheMode.ENABLE, EntryState.VALID
    both = expected_outcomes(mode, None, valid)
    assert both == expected_outcomes(mode, True, valid) | expected_outcomes(mode, False, valid)
    options = CompileOptions(cache_mode=CacheMode.FORCE, debug_config=LISTED)
    assert len(bystander_fates(options, named("8.5"))) == 2
    assert len(bystander_fates(options, named("7.0"))) == 1


@pytest.mark.parametrize(
    ("edition", "ini", "environment", "limits"),
    [
        ("5.0", {}, {"MAX_OP_CACHE_SIZE": "8", "REMAIN_CACHE_SIZE_RATIO": "20%"}, (8, 20)),
        ("5.0", {}, {"ASCEND_MAX_OP_CACHE_SIZE": "8"}, (500, 50)),
        ("6.0", {"max_op_cache_size": "8", "remain_cache_size_ratio": "20"}, {}, (500, 50)),
        ("7.0", {"max_op_cache_size": "8", "remain_cache_size_ratio": "20"}, {}, (500, 50)),
        (
            "7.0",
            {"ascend_max_op_cache_size": "8", "ascend_remain_cache_size_ratio": "20"},
            {},
            (8, 20),
        ),
        ("9.0", {"max_op_cache_size": "8", "remain_cache_size_ratio": "20"}, {}, (8, 20)),
    ],
)
def test_limits_by_edition(
    edition: str, ini: dict[str, str], environment: dict[str, str], limits: tuple[int, int]
) -> None:
    assert expected_limits(ini, environment, named(edition)) == CacheLimits(*limits)


def test_aging_where_no_idle_time_is_promised() -> None:
    entries = [AgedEntry("old", 9 * 2**20, 7200), AgedEntry("new", 9 * 2**20, 5)]
    for name in ("6.0", "7.0"):
        aging = expected_aging(entries, 0, CacheLimits(8, 50), named(name))
        assert (aging.must_go, aging.must_stay) == ({"old"}, set())
    assert expected_aging(entries, 0, CacheLimits(8, 50), named("8.0.RC2")).must_stay == {"new"}


def test_names_of_other_editions_have_a_remedy() -> None:
    assert foreign_names(named("8.0"))["ascend_max_op_cache_size"][1] == "max_op_cache_size"
    assert foreign_names(named("7.0"))["max_op_cache_size"][1] == "ascend_max_op_cache_size"
    assert foreign_names(named("6.0"))["max_op_cache_size"][1] == "ASCEND_MAX_OP_CACHE_SIZE"
    assert foreign_names(named("9.0"))["MAX_OP_CACHE_SIZE"][1] == "ASCEND_MAX_OP_CACHE_SIZE"


def test_what_changes_from_7_to_8() -> None:
    kinds = {each.after.id: each.kind for each in changes(named("7.0"), named("8.0.RC3"))}
    assert kinds["debug/list-caches-unlisted"] is ChangeKind.DIFFERENT
    assert kinds["cache-mode/directory-precedence"] is ChangeKind.DIFFERENT
    assert "cache-mode/enable-reuses" not in kinds
    assert changes(named("8.0.RC3"), named("8.0.RC3")) == []
    assert {Advice.REFRESH, Advice.INI_KEYS, Advice.CACHE_PATH_APPEARS} <= set(
        advice(named("7.0"), named("8.0.RC3"))
    )
    gone = {each.after.id: each.kind for each in changes(named("8.0"), named("6.0"))}
    assert gone["aging/minus-one"] is ChangeKind.GONE


def test_what_could_not_be_read_is_observed_and_never_called_new() -> None:
    unread = load_rules(named("7.0"))["aging/minus-one"]
    assert (unread.level, unread.unread, unread.promised_by) == (Level.INFO, True, "")
    assert unread.statement.startswith("What CANN 7.0 says of this could not be read; observed: ")
    rules = ("aging/minus-one", "impl-mode/for-all", "impl-mode/precision-file")
    steps = {}
    for before, after in pairwise(editions_of(CANN)):
        for each in changes(before, after):
            if each.after.id in rules:
                steps[before.name, after.name, each.after.id] = each.kind
    assert steps == {
        ("6.0", "7.0", "impl-mode/for-all"): ChangeKind.UNREAD,
        ("7.0", "8.0.RC2", "aging/minus-one"): ChangeKind.UNREAD,
    }
    assert changes(named("7.0"), named("5.0")) != []
    back = {each.after.id for each in changes(named("8.0"), named("7.0"))}
    assert "aging/minus-one" not in back


def test_a_comparison_in_lines() -> None:
    lines = compared(named("6.0"), named("7.0"), Language.ENGLISH)
    assert lines[0] == "From CANN 6.0 to CANN 7.0"
    assert "aging/creates-ini  [new]" in lines
    assert "impl-mode/for-all  [not read for the release before]" in lines
    assert lines[-1] == "3 new, 0 gone, 3 different, 12 not read for the release before"
