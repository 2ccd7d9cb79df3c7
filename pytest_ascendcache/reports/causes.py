"""Broken checks that share a cause, told once.

Two checks share a cause where the same was observed instead of the same kind of thing, with the
same kinds of options, and with the same harm. A check of a combination belongs to the cause whose
options are in the smallest combination that shows it. Of several rules the first is the one the
cause explains most: the others have broken checks of other causes too. What was found so is then
one cause with another where one rule explains both, see ``related``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ascendcache.contract import load_rules
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

    ``reason`` is a sentence; ``also`` are other sentences the checks say. ``harm`` is the worst
    that was seen, ``harms`` all that fail a run, the worst first.
    """

    reason: str
    verdict: str
    harm: str | None
    rules: Mapping[str, int]
    checks: tuple[Check, ...]
    also: tuple[str, ...] = ()
    harms: tuple[str, ...] = ()

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
            "harms": list(self.harms),
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
    groups_of_rules = _within_rules(found_groups)
    total = Counter(
        check["rule"] for group in groups_of_rules for check in group.checks if _own(check)
    )
    places = {rule: place for place, rule in enumerate(order)}
    merged = _merged(groups_of_rules, total, places)
    found = [_cause(group, total, places) for group in merged]
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
        [
            each
            for each in groups
            if each.harm == check.get("harm") and any(rule == one["rule"] for one in each.checks)
        ],
        [each for each in groups if effect in each.effects and each.families == families],
        [each for each in groups if families and each.families == families],
        [each for each in groups if effect in each.effects and each.families <= families],
        [each for each in groups if rule in {one["rule"] for one in each.checks}],
    )
    best = next(filter(None, fitting), None)
    if best is None or not _explained(groups, check):
        groups.append(_Group({effect}, families, check.get("harm"), [check], levels))
        return
    group = max(best, key=lambda each: (len(each.families), len(each.checks)))
    group.checks.append(check)
    group.effects.add(effect)


def _explained(groups: Sequence[_Group], check: Check) -> bool:
    """Whether harm as bad as a combination's was seen by a simpler check too: it is not what the
    combination adds."""
    return _rank(check.get("harm")) >= min((_rank(each.harm) for each in groups), default=0)


def _rank(harm: str | None) -> int:
    return Harm(harm).rank if harm else _NO_HARM


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


def _merged(
    groups: list[_Group], total: Mapping[str, int], places: Mapping[str, int]
) -> list[_Group]:
    """Groups of which one explains the other become one, the explaining one first."""
    kept: list[_Group] = []
    for group in groups:
        kept.append(group)
        while other := next(
            (each for each in kept[:-1] if _related(each, kept[-1], total, places)), None
        ):
            last = kept.pop()
            other.checks += last.checks
            other.effects |= last.effects
            other.harm = min((other.harm, last.harm), key=_rank)
            kept.remove(other)
            kept.append(other)
    return kept


def _related(
    one: _Group, other: _Group, total: Mapping[str, int], places: Mapping[str, int]
) -> bool:
    """Whether two groups are one cause: the verdict is the same, and

    * one rule explains both, or a rule and one that rests on it;
    * or the same harm was done with the same kinds of options;
    * or the same was observed, and did the same harm that fails a run;
    * or most of what is broken of a rule is in one, and the rest of it, with that harm, in the
      other.
    """
    if _verdict(one) != _verdict(other) or _verdict(one) in ("undecided", "error"):
        return False
    first, second = (_explaining(each, total, places)[0] for each in (one, other))
    fails = [each.harm is not None and Harm(each.harm).fails for each in (one, other)]
    same = one.harm is not None and one.harm == other.harm
    if first == second:
        return same or not any(fails)
    if (_rests(first, second) or _rests(second, first)) and fails[0] == fails[1]:
        return True
    if same and one.families and one.families == other.families:
        return True
    if same and fails[0] and one.effects & other.effects:
        return True
    return same and (_holds_most(one, other, total) or _holds_most(other, one, total))


def _rests(rule: str, on: str) -> bool:
    """Whether a rule rests on another, be it by way of a third."""
    rules = load_rules()
    while rule in rules and (rule := rules[rule].rests_on):
        if rule == on:
            return True
    return False


def _holds_most(one: _Group, other: _Group, total: Mapping[str, int]) -> bool:
    held = Counter(check["rule"] for check in one.checks if _own(check))
    shared = {check["rule"] for check in other.checks if _own(check)} & {*held}
    return any(held[rule] > total[rule] * _MOST for rule in shared)


def _verdict(group: _Group) -> str:
    return min((str(each["verdict"]) for each in group.checks), key=BROKEN.index)


def _explaining(group: _Group, total: Mapping[str, int], places: Mapping[str, int]) -> list[str]:
    """The rules of a group, the one that explains the others first."""
    counts = Counter(check["rule"] for check in group.checks)
    own = Counter(check["rule"] for check in group.checks if _own(check))

    def explains(rule: str) -> tuple[bool, bool, int, int]:
        rests = any(_rests(rule, each) for each in counts)
        return rests, own[rule] <= total[rule] * _MOST, -own[rule], places.get(rule, 0)

    return sorted(counts, key=explains)


def _cause(group: _Group, total: Mapping[str, int], places: Mapping[str, int]) -> Cause:
    counts = Counter(check["rule"] for check in group.checks)
    rules = _explaining(group, total, places)
    ranked = sorted(
        group.checks,
        key=lambda each: (BROKEN.index(each["verdict"]), rules.index(each["rule"])),
    )
    ranked = _without_long_names_first(ranked, rules[0])
    effects: dict[str, Check] = {}
    for each in ranked:
        effects.setdefault(_effect(each), each)
    told, *also = [reason(each, group.levels) for each in effects.values()]
    # What a combination does besides is the harm of the other causes that are in it.
    own = [each for each in ranked if _own(each)] or ranked
    harms = sorted({each["harm"] for each in own if each.get("harm")}, key=_rank)
    return Cause(
        reason=told,
        verdict=min((each["verdict"] for each in ranked), key=BROKEN.index),
        harm=harms[0] if harms else None,
        harms=tuple(each for each in harms if Harm(each).fails),
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
