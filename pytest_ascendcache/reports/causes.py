"""Broken checks that share a cause, told once.

Two checks share a cause where the same was observed instead of the same kind of thing, with the
same kinds of options, and with the same harm. A check of a combination belongs to the cause whose
options are in the smallest combination that shows it. Of several rules the first is the one the
cause explains most: the others have broken checks of other causes too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.reports.localise import explanations
from pytest_ascendcache.reports.reasons import ENDING, reason, sentences, shortened
from pytest_ascendcache.reports.requests import FAMILIES, combination, deciding

Check = Mapping[str, Any]

BROKEN = ("fail", "undecided", "error", "warn")
"""Verdicts that have a cause, the worst first. A known deviation has its reason already."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_VALUE = re.compile(r"[0-9/$…]")
_NO_HARM = len(Harm)
_MOST = 0.7
"""The share of a rule's broken checks that makes a cause the one of the rule."""
_SHORT = 12
"""What is shorter behind a colon is a value and no sentence."""


@dataclass(frozen=True)
class Cause:
    """Broken checks with one cause, those of the explaining rule first.

    ``reason`` is a sentence; ``also`` are other sentences the same rule's checks say.
    """

    reason: str
    verdict: str
    harm: str | None
    rules: Mapping[str, int]
    checks: tuple[Check, ...]
    also: tuple[str, ...] = ()

    @property
    def repeat(self) -> str:
        """One command that shows it again."""
        return str(self.checks[0].get("repeat", ""))

    @property
    def seen(self) -> str:
        """What was seen of the harm, in a check that did the worst; empty where it is not told."""
        worst = (each for each in self.checks if each.get("harm") == self.harm)
        return next(
            (shortened(told) for each in worst if (told := each["evidence"].get("harm"))), ""
        )

    @property
    def rule(self) -> str:
        """The rule that explains the others."""
        return next(iter(self.rules))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for reports; checks by name."""
        return {
            "reason": self.reason,
            "also": list(self.also),
            "verdict": self.verdict,
            "harm": self.harm,
            "seen": self.seen,
            "rules": dict(self.rules),
            "checks": [each["check"] for each in self.checks],
            "repeat": self.repeat,
        }


@dataclass
class _Group:
    effects: set[str]
    families: frozenset[str]
    harm: str | None
    checks: list[Check] = field(default_factory=list)
    levels: Mapping[str, str] = field(default_factory=dict)


def causes(checks: Iterable[Check], order: Sequence[str] = ()) -> list[Cause]:
    """The causes of broken checks, the worst first.

    ``checks`` are those of a JSON report, ``order`` the ids of rules in the documents' order.
    """
    checks = list(checks)
    groups: dict[tuple[str, frozenset[str], str | None], _Group] = {}
    for check in checks:
        if check["verdict"] not in BROKEN or check["evidence"].get("factors"):
            continue
        key = (_effect(check), _asked(check), check.get("harm"))
        groups.setdefault(key, _Group({key[0]}, *key[1:])).checks.append(check)
    found_groups = list(groups.values())
    for check, levels in _combinations(checks):
        _join(found_groups, check, levels)
    merged = _within_rules(found_groups)
    total = Counter(check["rule"] for group in merged for check in group.checks if _own(check))
    found = [_cause(group, total, order) for group in merged]
    return sorted(found, key=lambda each: (_severity(each), -len(each.checks)))


def _severity(cause: Cause) -> tuple[int, int]:
    rank = Harm(cause.harm).rank if cause.harm else _NO_HARM
    return BROKEN.index(cause.verdict), rank


def _families(names: Iterable[str]) -> frozenset[str]:
    return frozenset(FAMILIES[each] for each in names if each in FAMILIES)


def _combinations(checks: Sequence[Check]) -> list[tuple[Check, dict[str, str]]]:
    """Broken combinations with the levels that explain each, found by their check or here."""
    cells = [each for each in checks if each["evidence"].get("factors")]
    found = []
    for rule in dict.fromkeys(each["rule"] for each in cells):
        own = [each for each in cells if each["rule"] == rule]
        broken = [each for each in own if each["verdict"] in BROKEN]
        passed = [each["evidence"]["factors"] for each in own if each["verdict"] == "pass"]
        levels = explanations([each["evidence"]["factors"] for each in broken], passed)
        found += [
            (check, combination(check) or explained)
            for check, explained in zip(broken, levels, strict=True)
        ]
    # Those whose smallest combination was looked for say what explains the others.
    return sorted(found, key=lambda each: not combination(each[0]))


def _asked(check: Check) -> frozenset[str]:
    request, _ = deciding(check)
    return request.families if request is not None else frozenset()


def _join(groups: list[_Group], check: Check, levels: Mapping[str, str]) -> None:
    """Put a combination where it belongs: by its effect and options, else options, else rule."""
    effect, rule, families = _effect(check), check["rule"], _families(levels)
    fitting = (
        [each for each in groups if effect in each.effects and each.families == families],
        [each for each in groups if families and each.families == families],
        [each for each in groups if effect in each.effects and each.families <= families],
        [each for each in groups if rule in {one["rule"] for one in each.checks}],
    )
    best = next(filter(None, fitting), None)
    if best is None:
        groups.append(_Group({effect}, families, check.get("harm"), [check], levels))
        return
    group = max(best, key=lambda each: (len(each.families), len(each.checks)))
    group.checks.append(check)
    group.effects.add(effect)


def _own(check: Check) -> bool:
    """Whether it is a check of its rule alone, and none of a combination of all options."""
    return not check["evidence"].get("factors")


def _within_rules(groups: list[_Group]) -> list[_Group]:
    """One group for what checks of one rule, and of no other, say with the same options, or the
    same of other options."""
    alone: dict[tuple[str, str | None, str], list[_Group]] = {}
    kept = []
    for group in groups:
        rules = {check["rule"] for check in group.checks}
        if len(rules) > 1:
            kept.append(group)
            continue
        undecided = "undecided" if group.checks[0]["verdict"] in ("undecided", "error") else ""
        alike = alone.setdefault((rules.pop(), group.harm, undecided), [])
        same = (
            each
            for each in alike
            if each.families == group.families or each.effects & group.effects
        )
        if (other := next(same, None)) is None:
            alike.append(group)
            kept.append(group)
        else:
            other.checks += group.checks
            other.effects |= group.effects
    return kept


def _cause(group: _Group, total: Mapping[str, int], order: Sequence[str]) -> Cause:
    counts = Counter(check["rule"] for check in group.checks)
    places = {rule: place for place, rule in enumerate(order)}
    own = Counter(check["rule"] for check in group.checks if _own(check))

    def explains(rule: str) -> tuple[bool, int, int]:
        return own[rule] <= total[rule] * _MOST, -own[rule], places.get(rule, 0)

    rules = sorted(counts, key=explains)
    ranked = sorted(
        group.checks,
        key=lambda each: (BROKEN.index(each["verdict"]), rules.index(each["rule"])),
    )
    ranked = _without_long_names_first(ranked, rules[0])
    effects: dict[str, Check] = {}
    for each in ranked:
        effects.setdefault(_effect(each), each)
    told, *also = [reason(each, group.levels) for each in effects.values()]
    harms = [each["harm"] for each in ranked if each.get("harm")]
    return Cause(
        reason=told,
        verdict=min((each["verdict"] for each in ranked), key=BROKEN.index),
        harm=min(harms, key=lambda each: Harm(each).rank) if harms else None,
        rules={each: counts[each] for each in rules},
        checks=tuple(ranked),
        also=tuple(dict.fromkeys(each for each in also if each != told)),
    )


def _without_long_names_first(checks: Sequence[Check], rule: str) -> list[Check]:
    """The check that is told: the explaining rule's, and of those the shortest to repeat."""
    told = min(
        (each for each in checks if each["rule"] == rule),
        key=lambda each: (BROKEN.index(each["verdict"]), len(each.get("repeat", ""))),
    )
    return [told, *(each for each in checks if each is not told)]


def _effect(check: Check) -> str:
    """What kind of thing was observed instead of what kind of thing."""
    evidence = check["evidence"]
    if evidence.get("findings"):
        return str(check["rule"])  # what is found in a cache differs from rule to rule
    observed, expected = evidence.get("observed", ""), evidence.get("expected", "")
    if check["verdict"] in ("undecided", "error") or not (observed and expected):
        words = sentences(check["message"])
        return _kind(words[0]) if words else "?"
    if observed.endswith(" gone") or observed.startswith("of idle entries"):
        return "too few aged" if len(observed) < len(expected) or "none" in observed else "aging"
    if observed.startswith("compiled, entry"):
        if observed.endswith(("absent", "kept")):
            return "the cache is not used"
        if expected.startswith("reused"):
            return "compiled again"
    return f"{observed} | {expected}"


def _kind(sentence: str) -> str:
    """A sentence without what differs from check to check: the situation before it, values."""
    what = sentence.rpartition(": ")[2] if ENDING.match(sentence) is None else sentence
    if what.endswith(("compiled, entry kept", "compiled, entry absent")):
        return "the cache is not used"
    words = _QUOTED.sub("#", what if len(what) > _SHORT else sentence).split()
    return " ".join("#" if _VALUE.search(word) else word for word in words)
