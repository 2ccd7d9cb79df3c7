"""``--ascend-rules``: the rules with level, number of checks and source, in 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from pytest_ascendcache.contract import Rule, load_rules
from pytest_ascendcache.words import count, nearest
from pytest_ascendcache.words.layout import WIDTH, columns, wrapped

_ASKED_FOR = {"audit/": "--ascend-audit", "release/": "--ascend-release"}
"""Rules with checks only where something else is asked for, by the beginning of their names."""


def rule_list(items: Iterable[pytest.Item], text: str) -> list[str]:
    """The lines that list the rules that ``text`` occurs in (all, where it is empty).

    ``items`` are the checks of the suite as it would run.

    Raises:
        pytest.UsageError: where there is no such rule.
    """
    markers = (item.get_closest_marker("ascend_rule") for item in items)
    checks = Counter(marker.args[0] for marker in markers if marker)
    rules = load_rules()
    found = [rule for rule in rules.values() if text.casefold() in _searched(rule).casefold()]
    if not found:
        near = nearest(text, rules)
        hint = f"did you mean '{near}'?" if near else "pytest --ascend-rules lists all of them."
        raise pytest.UsageError(f"--ascend-rules={text}: no rule has this in it; {hint}")
    lines = [line for rule in found for line in _told(rule, checks[rule.id], len(found) == 1)]
    total = sum(checks[rule.id] for rule in found)
    return [*lines, f"{count(len(found), 'rule')}, {count(total, 'check')}"]


def _searched(rule: Rule) -> str:
    return f"{rule.id}\n{rule.level.value}\n{rule.title_en}\n{rule.title_zh}\n{rule.source}"


def _told(rule: Rule, checks: int, whole: bool) -> list[str]:
    """One rule; alone, with its statement."""
    right = f"{rule.level.value}, {_how_many(rule, checks)}"
    blanks = " " * max(2, WIDTH - columns(rule.id) - columns(right))
    lines = [f"{rule.id}{blanks}{right}", *wrapped(rule.title_en, 4)]
    if whole:
        lines += wrapped(rule.statement, 4)
    return [*lines, *wrapped(f"[{rule.source}]", 4)]


def _how_many(rule: Rule, checks: int) -> str:
    if checks:
        return count(checks, "check")
    if rule.id == "robust/stress":
        return "with --ascend-stress"
    return next(
        (f"with {option}" for start, option in _ASKED_FOR.items() if rule.id.startswith(start)),
        "no check",
    )
