"""A cause: broken checks that one bug explains, and what a report says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Ending,
    Fact,
)
from pytest_ascendcache.contract.harm import harm_in
from pytest_ascendcache.language import Language, text, texts, translated
from pytest_ascendcache.reports.headline import MODE, headline, kind, next_step
from pytest_ascendcache.reports.history import (
    History,
    history,
    wrong_place,
)
from pytest_ascendcache.reports.reasons import reason, shortened
from pytest_ascendcache.reports.records import harm_rank
from pytest_ascendcache.reports.requests import combination, request_of

Check = Mapping[str, Any]

UNDECIDED = "undecided"
BROKEN = ("fail", UNDECIDED, "warn")
"""Verdicts that have a cause, the worst first. A known deviation has its reason already."""
_EVERYTHING = "combinations/"
"""What the rules begin with that judge whatever a run does."""
_LIMITS = {"ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"}
_PROMISES = {
    "--op_compiler_cache_mode": "cache-mode/default-is-disable",
    "--op_compiler_cache_mode=disable": "cache-mode/disable-is-inert",
    "--op_compiler_cache_mode=enable": "cache-mode/enable-reuses",
    "--op_compiler_cache_mode=force": "cache-mode/force-purges-soc",
    "--op_compiler_cache_dir": "cache-mode/directory-precedence",
    "ASCEND_CACHE_PATH": "cache-mode/directory-precedence",
    "--soc_version": "cache-mode/key-separates",
    "--op_debug_level": "debug/level-bypasses",
    "--op_debug_config": "debug/config-bypasses",
    "op_debug_list": "debug/list-bypasses-listed",
    "op_cache.ini": "aging/needs-both",
    "ASCEND_MAX_OP_CACHE_SIZE": "aging/needs-both",
    "ASCEND_REMAIN_CACHE_SIZE_RATIO": "aging/keeps-ratio",
    "--op_select_implmode": "impl-mode/list-limits",
    "--optypelist_for_implmode": "impl-mode/type-list",
    "--op_precision_mode": "impl-mode/precision-file",
}
"""The rule whose promise is about a subject."""


@dataclass(frozen=True)
class Cause:
    """Broken checks with one cause, those of the explaining rule first.

    ``reason`` is a sentence; ``also`` are the sentences of its other checks. ``harm`` is the
    worst harm observed, ``harms`` all that fail a run, the worst first; ``fact`` shows the
    worst. ``rules`` counts checks by rule. ``not_judged`` are the checks that were not run because
    they need what is broken here. ``proven`` are the rules whose elementary checks passed.
    """

    reason: str
    verdict: str
    harm: str | None
    rules: Mapping[str, int]
    checks: tuple[Check, ...]
    also: tuple[str, ...] = ()
    harms: tuple[str, ...] = ()
    fact: Fact | None = None
    not_judged: int = 0
    proven: frozenset[str] = frozenset()

    def headline(self, language: Language) -> str:
        """What fails to do what, in one sentence; empty if nothing says so. What a fact leaves
        unnamed, the rule names."""
        said, breach = self._of_fact(language), f"breach_{self.rule}"
        fact = self.fact
        named = fact and (fact.subject or (fact.aspect is Aspect.FILES and fact.about))
        if self.verdict == UNDECIDED or breach not in texts() or (said and named):
            return said
        if said and f"event_{self.rule}" in texts():
            return said
        broken = text(breach, language)
        return text("fact_on", language, event=broken, what=said) if said else broken

    def _of_fact(self, language: Language) -> str:
        """The headline of the fact, after the event that the rule is about where the fact names no
        more than the cache mode; empty if the fact has no words."""
        if self.fact is None:
            return ""
        subject, event = self.fact.subject, f"event_{self.rule}"
        if event not in texts() or not (subject is None or subject.name == MODE):
            said = headline(self.fact, language, sometimes=self.happens_sometimes)
            smallest = combination(self.checks[0])
            levels = " ".join(f"{name}={level}" for name, level in smallest.items())
            return (
                text("fact_with", language, what=said, levels=levels) if levels and said else said
            )
        what = headline(replace(self.fact, subject=None), language)
        on = text(event, language)
        return text("fact_on", language, event=on, what=what) if what else ""

    @property
    def is_seen(self) -> bool:
        """Whether the headline says what was observed; else the reason has to."""
        return bool(self._of_fact(Language.ENGLISH))

    def sentence(self, language: Language) -> str:
        """The headline, else the reason after what is under test."""
        if said := self.headline(language):
            return said
        subject = self.fact.subject if self.fact is not None else None
        reason = translated(self.reason, language)
        return text("fact_of", language, subject=subject, what=reason) if subject else reason

    def next(self, language: Language) -> str:
        """What to do about it, in one line."""
        if self.verdict == UNDECIDED:
            return text("next_undecided", language)
        rule = next(iter(self.rules))
        for name in (f"next_{rule}", f"next_{rule.partition('/')[0]}"):
            if name in texts():
                return text(name, language)
        return next_step(self.fact, language)

    @property
    def history(self) -> History | None:
        """The runs that show it; None if its fact is about none."""
        return history(self.checks[0], self.fact)

    @property
    def mode(self) -> str | None:
        """The cache mode of the wrong run, empty without the option; None if no run is wrong."""
        steps = self.checks[0]["evidence"].get("steps") or ()
        place = wrong_place(steps, self.fact) if self.fact is not None else None
        return request_of(steps[place]["command"]).mode if place is not None else None

    @property
    def says_a_mode_is_dead(self) -> bool:
        """Whether it says that a cache mode does not do what it is there for."""
        decided = self.verdict != UNDECIDED and not self.event
        return decided and says_a_mode_is_dead(self.fact) and not self.happens_sometimes

    @property
    def event(self) -> str:
        """The rule about an event that most of its checks judge, apart from those of combinations,
        which judge everything; empty if there is none, or if what is under test is broken without
        the event."""
        apart = {each: n for each, n in self.rules.items() if not each.startswith(_EVERYTHING)}
        events = {each: n for each, n in apart.items() if f"event_{each}" in texts()}
        if self.promised in self.rules or 2 * sum(events.values()) <= sum(apart.values()):
            return ""
        return max(events, key=events.__getitem__)

    @property
    def happens_sometimes(self) -> bool:
        """Whether an elementary check showed that the mode does what it is there for."""
        return says_a_mode_is_dead(self.fact) and self.promised in self.proven

    @property
    def ages_too_much(self) -> bool:
        """Whether it says that entries age which have to stay."""
        too_much = (Aged.TOO_MANY.value, Aged.OTHERS.value)
        return self.fact is not None and kind(self.fact) in too_much

    @property
    def is_misplaced(self) -> bool:
        """Whether it says that the cache is not where the option puts it: nothing else can be
        found there either."""
        subject = self.fact.subject if self.fact is not None else None
        return subject is not None and subject.name.startswith("--op_compiler_cache_dir")

    @property
    def is_control(self) -> bool:
        """Whether it is a positive control that failed, and nothing broken explains that."""
        return of_control(self.checks[0])

    def names_the_same(self, other: Cause) -> bool:
        """Whether both are about the same option, variable, file or event."""
        subject, mine = (each.fact.subject if each.fact else None for each in (other, self))
        if subject is None or mine is None:
            return False
        if {subject.name, mine.name} == _LIMITS and self.fact and other.fact:
            # Which entries age follows from both variables.
            return self.fact.aspect is other.fact.aspect is Aspect.AGING
        if subject.name.partition(" over ")[0] != mine.name.partition(" over ")[0]:
            return False
        return subject.name != MODE or subject.value == mine.value

    def is_general(self, other: Cause) -> bool:
        """Whether both see the same of different options: what is wrong is not the option."""
        kinds = {kind(each.fact) for each in (self, other) if each.fact is not None}
        return kinds in ({"changed"}, {Ending.SUCCESS.value})

    def with_checks_of(self, other: Cause) -> Cause:
        """This cause with the checks of another one, which it explains."""
        sentences = (each.reason for each in (other,) if each.reason != self.reason)
        fact = self.fact
        if fact is not None and self.is_general(other) and not self.names_the_same(other):
            fact = replace(fact, subject=None)
        return replace(
            self,
            fact=fact,
            verdict=min(self.verdict, other.verdict, key=BROKEN.index),
            harm=min(self.harm, other.harm, key=harm_rank),
            rules=dict(Counter(self.rules) + Counter(other.rules)),
            checks=(*self.checks, *other.checks),
            also=tuple(dict.fromkeys((*self.also, *sentences, *other.also))),
            harms=tuple(sorted({*self.harms, *other.harms}, key=harm_rank)),
            not_judged=self.not_judged + other.not_judged,
        )

    @property
    def repeat(self) -> str:
        """A command that shows the cause again."""
        return str(self.checks[0].get("repeat", ""))

    @property
    def script(self) -> str:
        """A script that shows the bug without this tool; empty if there is none."""
        return str(self.checks[0]["evidence"].get("script", ""))

    @property
    def seen(self) -> str:
        """How a check observed the worst harm; empty if none describes it."""
        worst = (
            each["evidence"].get("harm") for each in self.checks if each.get("harm") == self.harm
        )
        return next((shortened(harm) for harm in worst if harm), "")

    @property
    def rule(self) -> str:
        """The rule that explains the others: the one about what is under test, if a mode is not
        obeyed."""
        named = self.says_a_mode_is_dead and self.promised in self.rules
        return self.promised if named else self.event or next(iter(self.rules))

    @property
    def promised(self) -> str:
        """The rule about the option, variable or file that is under test; empty if none is."""
        subject = self.fact.subject if self.fact is not None else None
        return _PROMISES.get(str(subject)) or _PROMISES.get(subject.name if subject else "", "")

    def as_dict(self) -> dict[str, Any]:
        """Plain data for reports; checks by name."""
        return {
            "headline": self.sentence(Language.ENGLISH),
            "reason": self.reason,
            "also": list(self.also),
            "verdict": self.verdict,
            "harm": self.harm,
            "harms": list(self.harms),
            "seen": self.seen,
            "rules": dict(self.rules),
            "subject": str(self.fact.subject) if self.fact and self.fact.subject else "",
            "next": self.next(Language.ENGLISH),
            "history": self.history.lines(Language.ENGLISH) if self.history else [],
            "checks": [each["check"] for each in self.checks],
            "not_judged": self.not_judged,
            "repeat": self.repeat,
            "script": self.script,
        }


def of_control(check: Check) -> bool:
    """Whether a check is undecided because the positive control failed."""
    return check["verdict"] == UNDECIDED and bool(check["evidence"].get("control"))


def is_claim(fact: Fact | None) -> bool:
    """Whether a fact says no more than that a condition does not hold."""
    return fact is not None and fact.aspect is Aspect.CLAIM


def says_a_mode_is_dead(fact: Fact | None) -> bool:
    """Whether a fact says that a cache mode does not do what it is there for."""
    subject = fact.subject if fact is not None else None
    if fact is None or subject is None or subject.name != MODE:
        return False
    return kind(fact) in (("unused", "again") if subject.value == "enable" else ("served", "stays"))


def worst_fact(check: Check) -> Fact | None:
    """The fact that shows the worst harm, among equals one about a mode that is not obeyed; None if
    the check has none."""
    return min(
        facts_of(check),
        key=lambda each: (harm_in(each).rank, not says_a_mode_is_dead(each), each.code),
        default=None,
    )


def said_of(check: Check) -> str:
    """What is wrong, as a headline, followed by the check's own sentence."""
    fact = worst_fact(check)
    said = headline(fact, Language.ENGLISH) if fact is not None else ""
    return "; ".join(filter(None, (said, reason(check))))


def facts_of(check: Check) -> list[Fact]:
    """The facts of a check."""
    return [Fact.from_dict(each) for each in check["evidence"].get("facts") or ()]
