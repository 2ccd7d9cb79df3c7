"""``--ascend-rules``: the rules with level, number of checks and source, in 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from pytest_ascendcache.contract import Edition, Rule, load_rules
from pytest_ascendcache.language import Language, translated
from pytest_ascendcache.language import text as say
from pytest_ascendcache.reports.answer import counted
from pytest_ascendcache.reports.upgrade import compared
from pytest_ascendcache.words import nearest
from pytest_ascendcache.words.layout import WIDTH, columns, wrapped

_ASKED_FOR = {
    "audit/": "--ascend-audit",
    "release/": "--ascend-release",
    "robust/stress": "--ascend-stress",
    "shared/": "--ascend-nodes",
}
"""Rules with checks only where something else is asked for, by the beginning of their names."""


def rule_list(
    items: Iterable[pytest.Item],
    text: str,
    language: Language,
    editions: Sequence[Edition] = (),
) -> list[str]:
    """The lines that list the rules that ``text`` occurs in (all, where it is empty).

    Rules are those of the editions; two of one product are compared.

    ``items`` are the checks of the suite as it would run.

    Raises:
        pytest.UsageError: where there is no such rule.
    """
    markers = (item.get_closest_marker("ascend_rule") for item in items)
    checks = Counter(marker.args[0] for marker in markers if marker)
    if len(editions) == 2 and editions[0].product == editions[1].product:
        return compared(editions[0], editions[1], language)
    rules = load_rules(*editions)
    found = [rule for rule in rules.values() if text.casefold() in _searched(rule).casefold()]
    if not found:
        near = nearest(text, rules)
        hint = f"did you mean '{near}'?" if near else "pytest --ascend-rules lists all of them."
        raise pytest.UsageError(f"--ascend-rules={text}: no rule has this in it; {hint}")
    lines = [
        line for rule in found for line in _told(rule, checks[rule.id], len(found) == 1, language)
    ]
    total = sum(checks[rule.id] for rule in found)
    counts = counted("rules", len(found), language), counted("checks", total, language)
    return [*lines, ", ".join(counts)]


def _searched(rule: Rule) -> str:
    return f"{rule.id}\n{rule.level.value}\n{rule.title_en}\n{rule.title_zh}\n{rule.source}"


def _told(rule: Rule, checks: int, whole: bool, language: Language) -> list[str]:
    """One rule; alone, with its statement."""
    chinese = language is Language.CHINESE
    level = say(f"l_{rule.level.value}", language)
    right = f"{level}, {_how_many(rule, checks, language)}"
    blanks = " " * max(2, WIDTH - columns(rule.id) - columns(right))
    lines = [f"{rule.id}{blanks}{right}", *wrapped(rule.title_zh if chinese else rule.title_en, 4)]
    if whole:
        lines += wrapped((chinese and rule.statement_zh) or rule.statement, 4)
    return [*lines, *wrapped(f"[{rule.source}]", 4)]


def _how_many(rule: Rule, checks: int, language: Language) -> str:
    if checks:
        return counted("checks", checks, language)
    asked = next(
        (option for start, option in _ASKED_FOR.items() if rule.id.startswith(start)), None
    )
    return translated("no check" if asked is None else f"only with {asked}", language)
