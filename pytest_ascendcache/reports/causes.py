"""Groups broken checks by cause, so that reports describe each cause once.

Two checks share a cause if the same was observed instead of the same kind of thing, with the same
kinds of options, and with the same harm. A check of a combination belongs to the cause whose
options are in the smallest combination that shows it. If a cause has checks of several rules, the
rule that it explains most comes first: the others have broken checks of other causes too. Groups
that one rule explains are merged into one cause, see ``_related``.

A broken elementary check explains every breach of a rule that rests on its own: those checks belong
to its cause, and so do those that were not run because of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_ascendcache.contract import foundations, load_rules
from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Ending,
    Fact,
    Place,
    Subject,
    SubjectKind,
    Words,
)
from pytest_ascendcache.contract.harm import Harm, harm_in
from pytest_ascendcache.contract.subjects import ONCE, RUNS_END, STOPPED
from pytest_ascendcache.language import Language, text, texts, translated
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.headline import MODE, headline, kind, next_step
from pytest_ascendcache.reports.history import (
    History,
    entry_of,
    history,
    storing_place,
    wrong_place,
)
from pytest_ascendcache.reports.localise import explanations
from pytest_ascendcache.reports.reasons import reason, shortened
from pytest_ascendcache.reports.records import harm_rank
from pytest_ascendcache.reports.requests import FAMILIES, combination, deciding, request_of

Check = Mapping[str, Any]

BROKEN = ("fail", "undecided", "error", "warn")
"""Verdicts that have a cause, the worst first. A known deviation has its reason already."""

_UNDECIDED = ("undecided", "error")
_MOST = 0.7
"""The share of a rule's broken checks from which a cause counts as that of the rule."""


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
    they need what is broken here.
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

    def headline(self, language: Language) -> str:
        """What fails to do what, in one sentence; empty if nothing says so. What a fact leaves
        unnamed, the rule names."""
        said, breach = self._of_fact(language), f"breach_{self.rule}"
        fact = self.fact
        named = fact and (fact.subject or (fact.aspect is Aspect.FILES and fact.about))
        if self.verdict in _UNDECIDED or breach not in texts() or (said and named):
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
            said, smallest = headline(self.fact, language), combination(self.checks[0])
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
        if self.verdict in _UNDECIDED:
            return text("next_undecided", language)
        room = next(iter(self.rules)).partition("/")[0]
        if f"next_{room}" in texts():
            return text(f"next_{room}", language)
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
    def is_basic(self) -> bool:
        """Whether it says that a cache mode does not do what it is there for."""
        of_events = all(f"event_{each}" in texts() for each in self.rules)
        return self.verdict not in _UNDECIDED and not of_events and _is_basic(self.fact)

    @property
    def is_misplaced(self) -> bool:
        """Whether it says that the cache is not where the option puts it: nothing else can be
        found there either."""
        subject = self.fact.subject if self.fact is not None else None
        return subject is not None and subject.name == "--op_compiler_cache_dir"

    @property
    def is_control(self) -> bool:
        """Whether it is a positive control that failed, and nothing broken explains that."""
        return _of_control(self.checks[0])

    @property
    def is_claim(self) -> bool:
        """Whether it says no more than that a condition does not hold."""
        return self.fact is not None and self.fact.aspect is Aspect.CLAIM

    def names_the_same(self, other: Cause) -> bool:
        """Whether both are about the same option, variable, file or event."""
        subject, mine = (each.fact.subject if each.fact else None for each in (other, self))
        if subject is None or mine is None:
            return False
        if {subject.name, mine.name} == _LIMITS and self.fact and other.fact:
            # Which entries age follows from both variables.
            return self.fact.aspect is other.fact.aspect is Aspect.AGING
        if subject.name != mine.name:
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
        named = self.is_basic and self.promised in self.rules
        return self.promised if named else next(iter(self.rules))

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


@dataclass
class _Group:
    """Broken checks that may share a cause.

    ``subjects`` are what was under test, of the worst fact of each; ``effects`` are what was
    observed (see ``_effect``), ``families`` kinds of options, ``levels`` those of a combination
    that explain it.
    """

    effects: set[str]
    subjects: set[str]
    families: frozenset[str]
    harm: str | None
    checks: list[Check] = field(default_factory=list)
    levels: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The worst verdict of its checks."""
        return min((str(each["verdict"]) for each in self.checks), key=BROKEN.index)

    @property
    def simple(self) -> list[Check]:
        """The checks that are not of a combination of all options."""
        return [each for each in self.checks if not each["evidence"].get("factors")]

    def absorb(self, other: _Group) -> None:
        """Take over the checks of another group."""
        self.checks += other.checks
        self.effects |= other.effects
        self.subjects |= other.subjects


@dataclass(frozen=True)
class _Rules:
    """``broken`` counts the broken simple checks of each rule in the report, ``places`` is the
    place of each rule in the documents' order."""

    broken: Mapping[str, int]
    places: Mapping[str, int]

    def by_explanation(self, group: _Group) -> list[str]:
        """The rules of a group, the one that explains the others first."""
        counts = Counter(check["rule"] for check in group.checks)
        simple = Counter(check["rule"] for check in group.simple)

        def key(rule: str) -> tuple[bool, bool, int, int]:
            rests = any(each in foundations(rule) for each in counts)
            in_part = simple[rule] <= self.broken[rule] * _MOST
            return rests, in_part, -simple[rule], self.places.get(rule, 0)

        return sorted(counts, key=key)

    def has_most(self, one: _Group, other: _Group) -> bool:
        """Whether ``one`` has most of what is broken of a rule that is broken in ``other`` too."""
        counts = Counter(check["rule"] for check in one.simple)
        shared = {check["rule"] for check in other.simple} & {*counts}
        return any(counts[rule] > self.broken[rule] * _MOST for rule in shared)


def causes_of(report: Document) -> list[Cause]:
    """The causes of the broken checks of a JSON report, the worst first."""
    return causes(report["checks"], [rule["id"] for rule in report["rules"]])


def causes(checks: Iterable[Check], order: Sequence[str] = ()) -> list[Cause]:
    """The causes of broken checks, the worst first.

    ``checks`` are those of a JSON report, ``order`` the ids of rules in the documents' order.
    """
    all_checks = list(checks)
    checks, under, waiting = _without_dependent(all_checks)
    alike: dict[tuple[str, frozenset[str], str | None], _Group] = {}
    for check in checks:
        if check["verdict"] not in BROKEN or check["evidence"].get("factors"):
            continue
        request, _ = deciding(check)
        of_options = request is not None and not _of_control(check)
        families = request.families if request and of_options else frozenset[str]()
        key = (_effect(check), families, check.get("harm"))
        group = alike.setdefault(key, _Group({key[0]}, set(), *key[1:]))
        group.checks.append(check)
        group.subjects |= _subjects(check)
    groups = list(alike.values())
    for check, levels in _combinations(checks):
        _join(groups, check, levels)
    groups = _within_rules(groups)
    broken = Counter(check["rule"] for group in groups for check in group.simple)
    rules = _Rules(broken, {rule: place for place, rule in enumerate(order)})
    merged = _merged(groups, rules)
    for group in merged:
        for base in {each["rule"] for each in group.checks if _is_base(each)}:
            group.checks += under.pop(base, ())
    starts = sum(each["evidence"].get("starts", 0) for each in all_checks)
    ranked = [_with_waiting(_accident(_cause(group, rules), starts), waiting) for group in merged]
    return sorted(_one_for_each_subject(sorted(ranked, key=_badness)), key=_badness)


def _badness(cause: Cause) -> tuple[int, int, int]:
    return BROKEN.index(cause.verdict), harm_rank(cause.harm), -len(cause.checks)


def _one_for_each_subject(ranked: Sequence[Cause]) -> list[Cause]:
    """Unite causes that one bug explains: those about the same option, variable, file or event,
    and those that rest on a cache mode which is not obeyed.

    Where a mode does not do what it says, whatever else runs of that mode show follows from it;
    where enable stores or serves nothing, nothing that needs an entry can be told either.
    """
    kept: list[Cause] = []

    def order(cause: Cause) -> tuple[bool, bool, bool]:
        return not cause.is_misplaced, not cause.is_basic, cause.is_claim

    for cause in sorted(ranked, key=order):
        place = next((at for at, each in enumerate(kept) if _is_under(each, cause)), None)
        if place is None:
            kept.append(cause)
        else:
            kept[place] = kept[place].with_checks_of(cause)
    return kept


_OF_NO_CACHE = {"unused", "again", Aged.TOO_FEW.value, Place.MISPLACED.value, Words.MISSING.value}
"""What is seen where the cache is somewhere else."""


def _is_under(one: Cause, other: Cause) -> bool:
    if other.verdict in _UNDECIDED:
        return one.is_misplaced or (one.is_basic and one.mode == "enable")
    if one.verdict in _UNDECIDED or one.fact is None or other.fact is None:
        return False
    if one.names_the_same(other) or ({*other.rules} <= {*one.rules} and other.verdict == "warn"):
        return True
    if one.is_misplaced and other.mode == "enable":
        return kind(other.fact) in _OF_NO_CACHE
    if other.is_claim and other.harm == one.harm and not one.is_claim:
        return one.harm not in (None, Harm.NOT_DETERMINED.value)
    if (
        one.fact.subject is not None
        and one.fact.subject.name == MODE
        and kind(other.fact) == "changed"
    ):
        return one.fact.subject.value == other.mode
    return one.is_general(other) or (one.is_basic and other.mode == one.mode)


def _is_base(check: Check) -> bool:
    """Whether a check is a broken elementary one. Without a fact it could not tell."""
    fact = worst_fact(check) if check["evidence"].get("elementary") else None
    return fact is not None and fact.aspect is not Aspect.UNDECIDED and check["verdict"] in BROKEN


def _of_control(check: Check) -> bool:
    """Whether a check is undecided because the positive control failed."""
    return check["verdict"] in _UNDECIDED and bool(check["evidence"].get("control"))


def _without_dependent(
    checks: Iterable[Check],
) -> tuple[list[Check], dict[str, list[Check]], Counter[str]]:
    """The checks that may have causes of their own; by the rule of a broken elementary check the
    broken ones that rest on it, and how many were not run because of it."""
    checks = list(checks)
    bases = list(dict.fromkeys(each["rule"] for each in checks if _is_base(each)))
    own: list[Check] = []
    under: dict[str, list[Check]] = {}
    waiting: Counter[str] = Counter()
    for check in checks:
        rests_on = {check["rule"], *foundations(check["rule"])} & {*bases}
        needed = check["evidence"].get("needs")
        if bases and not _is_base(check) and (needed in bases or _of_control(check)):
            waiting[needed or bases[0]] += 1
        elif rests_on and check["verdict"] in BROKEN and not _is_base(check):
            under.setdefault(next(each for each in bases if each in rests_on), []).append(check)
        else:
            own.append(check)
    return own, under, waiting


def _accident(cause: Cause, starts: int) -> Cause:
    """The cause; if it is an accident of the toolchain, with how often that happened in so many
    runs."""
    if cause.rule != RUNS_END:
        return cause
    facts = [fact for each in cause.checks for fact in facts_of(each)]
    ends = [fact.detail for fact in facts if fact.subject == STOPPED]
    once = [fact.detail for fact in facts if fact.subject == ONCE]
    if once:
        times = f"{len(once)} of {starts} runs"
        ends.append(f"{once[0]} in {times}, not again with the same options")
    if not ends:
        return cause
    return replace(cause, reason=ends[0], also=tuple(ends[1:]), fact=None)


def _with_waiting(cause: Cause, waiting: Counter[str]) -> Cause:
    return replace(cause, not_judged=sum(waiting.pop(each, 0) for each in cause.rules))


def _combinations(checks: Sequence[Check]) -> list[tuple[Check, dict[str, str]]]:
    """Broken checks of combinations, with the levels that explain each.

    The check itself may have searched for the smallest combination; otherwise the levels follow
    from which combinations passed.
    """
    cells = [each for each in checks if each["evidence"].get("factors")]
    explained = []
    for rule in dict.fromkeys(each["rule"] for each in cells):
        of_rule = [each for each in cells if each["rule"] == rule]
        broken = [each for each in of_rule if each["verdict"] in BROKEN]
        passed = [each["evidence"]["factors"] for each in of_rule if each["verdict"] == "pass"]
        levels = explanations([each["evidence"]["factors"] for each in broken], passed)
        explained += [
            (check, combination(check) or computed)
            for check, computed in zip(broken, levels, strict=True)
        ]
    # A smallest combination that a check searched for explains the other checks too.
    return sorted(explained, key=lambda each: not combination(each[0]))


def _join(groups: list[_Group], check: Check, levels: Mapping[str, str]) -> None:
    """Put a check of a combination into the group that fits best.

    It fits by harm and rule, else by effect and options, else by options, else by effect and some
    of the options, else by rule.
    """
    effect, rule = _effect(check), check["rule"]
    families = frozenset(FAMILIES[each] for each in levels if each in FAMILIES)
    of_rule = [each for each in groups if any(rule == one["rule"] for one in each.checks)]
    fitting = (
        [each for each in of_rule if each.harm == check.get("harm")],
        [each for each in groups if effect in each.effects and each.families == families],
        [each for each in groups if families and each.families == families],
        [each for each in groups if effect in each.effects and each.families <= families],
        of_rule,
    )
    best = next(filter(None, fitting), None)
    # Harm worse than that of every simpler check is what the combination adds: another cause.
    least = min((harm_rank(each.harm) for each in groups), default=0)
    if best is None or harm_rank(check.get("harm")) < least:
        harm = check.get("harm")
        groups.append(_Group({effect}, _subjects(check), families, harm, [check], levels))
        return
    group = max(best, key=lambda each: (len(each.families), len(each.checks)))
    group.checks.append(check)
    group.effects.add(effect)


def _within_rules(groups: list[_Group]) -> list[_Group]:
    """Merge groups of a single rule that have the same options or the same effect."""
    of_one_rule: dict[tuple[str, str | None, bool], list[_Group]] = {}
    kept = []
    for group in groups:
        rules = {check["rule"] for check in group.checks}
        if len(rules) > 1:
            kept.append(group)
            continue
        undecided = group.checks[0]["verdict"] in _UNDECIDED
        alike = of_one_rule.setdefault((rules.pop(), group.harm, undecided), [])
        same = (
            each
            for each in alike
            if each.families == group.families or each.effects & group.effects
        )
        if (other := next(same, None)) is None:
            alike.append(group)
            kept.append(group)
        else:
            other.absorb(group)
    return kept


def _merged(groups: list[_Group], rules: _Rules) -> list[_Group]:
    """Merge related groups, the explaining one first."""
    kept: list[_Group] = []
    for group in groups:
        kept.append(group)
        while other := next((each for each in kept[:-1] if _related(each, kept[-1], rules)), None):
            last = kept.pop()
            other.absorb(last)
            other.harm = min((other.harm, last.harm), key=harm_rank)
            kept.remove(other)
            kept.append(other)
    return kept


def _related(one: _Group, other: _Group, rules: _Rules) -> bool:
    """Whether two groups are one cause: the verdict is the same, and

    * one rule explains both, or a rule and one that it explains;
    * or the same harm was done with the same kinds of options;
    * or the same option with the same value did the same harm;
    * or the same was observed, and did the same harm, which is worse than a stale kernel;
    * or most of what is broken of a rule is in one, and the rest of it, with that harm, in the
      other.
    """
    if one.verdict != other.verdict or one.verdict in _UNDECIDED:
        return False
    first, second = (rules.by_explanation(each)[0] for each in (one, other))
    severe = [harm_rank(each.harm) < Harm.STALE.rank for each in (one, other)]
    same = one.harm is not None and one.harm == other.harm
    if first == second:
        return same or not any(severe)
    if (_explains(first, second) or _explains(second, first)) and severe[0] == severe[1]:
        return True
    if same and one.families and one.families == other.families:
        return True
    if same and one.subjects & other.subjects:
        return True
    if same and severe[0] and one.effects & other.effects:
        return True
    return same and (rules.has_most(one, other) or rules.has_most(other, one))


def _explains(rule: str, other: str) -> bool:
    """Whether every breach of a rule explains one of the other, maybe through further rules."""
    rules = load_rules()
    while other in rules and (other := rules[other].explained_by):
        if other == rule:
            return True
    return False


def _cause(group: _Group, rules: _Rules) -> Cause:
    counts = Counter(check["rule"] for check in group.checks)
    ordered = rules.by_explanation(group)
    ranked = sorted(
        group.checks, key=lambda each: (BROKEN.index(each["verdict"]), ordered.index(each["rule"]))
    )
    # The check that stands for the cause: of the explaining rule's with the worst harm the one
    # with the fewest runs.
    first = min(
        [each for each in ranked if each["rule"] == ordered[0] and not _is_claim(each)]
        or [each for each in ranked if not _is_claim(each)]
        or [each for each in ranked if each["rule"] == ordered[0]],
        key=lambda each: (
            BROKEN.index(each["verdict"]),
            harm_rank(each.get("harm")),
            not _is_basic(worst_fact(each)),
            each["evidence"].get("starts", 0),
        ),
    )
    ranked = [first, *(each for each in ranked if each is not first)]
    effects: dict[str, Check] = {}
    for each in ranked:
        effects.setdefault(_effect(each), each)
    # What could not be told may have a reason of its own in each check.
    apart = first["verdict"] in _UNDECIDED and not _of_control(first)
    told = ranked if apart else effects.values()
    main, *also = [reason(each, group.levels) for each in told]
    if _of_control(first):
        main = first["evidence"]["control"]
    # A combination may also show the harm of other causes that are part of it.
    simple = group.simple or ranked
    harms = sorted({each["harm"] for each in simple if each.get("harm")}, key=harm_rank)
    return Cause(
        reason=main,
        verdict=group.verdict,
        harm=harms[0] if harms else None,
        harms=tuple(each for each in harms if Harm(each).fails),
        rules={each: counts[each] for each in ordered},
        checks=tuple(ranked),
        fact=_named(worst_fact(ranked[0]), ranked[0]),
        also=tuple(dict.fromkeys(each for each in also if each != main)),
    )


def _is_claim(check: Check) -> bool:
    """Whether a check is broken, and its facts say no more than that a condition does not hold."""
    fact = worst_fact(check)
    return fact is not None and fact.aspect is Aspect.CLAIM


def _named(fact: Fact | None, check: Check) -> Fact | None:
    """The fact about what can be mended: that the cache was changed, about the file if only one
    was; that enable serves an entry of other options, about the option that differs."""
    steps = check["evidence"].get("steps") or ()
    if fact is None or not steps:
        return fact
    if kind(fact) == "changed":
        names = {each.rpartition("/")[2] for each in steps[-1]["changes"]}
        return _about(fact, SubjectKind.FILE, names.pop()) if len(names) == 1 else fact
    place = wrong_place(steps, fact)
    if kind(fact) != "served" or str(fact.subject) != f"{MODE}=enable" or place is None:
        return fact
    before = storing_place(steps, place, entry_of(steps[place], fact))
    if before is None:
        return fact
    stored, asked = (dict(request_of(steps[each]["command"]).options) for each in (before, place))
    for name in _KEYED:
        value = asked.get(name, "")
        if value != stored.get(name, "") and (value or name in stored):
            return _about(fact, SubjectKind.OPTION, name, "" if "/" in value else value)
    return fact


def _about(fact: Fact, kind_: SubjectKind, name: str, value: str = "") -> Fact:
    return replace(fact, subject=Subject(kind_, name, value))


_KEYED = ("--op_precision_mode", "--optypelist_for_implmode", "--op_select_implmode")
"""Options that select the kernel, the one that beats the others first."""


def _is_basic(fact: Fact | None) -> bool:
    """Whether a fact says that a cache mode does not do what it is there for."""
    subject = fact.subject if fact is not None else None
    if fact is None or subject is None or subject.name != MODE:
        return False
    return kind(fact) in (("unused", "again") if subject.value == "enable" else ("served", "stays"))


def _effect(check: Check) -> str:
    """What kind of thing was observed instead of what kind of thing: the code of the fact that
    does the worst harm."""
    if _of_control(check):
        return "control"
    rule = str(check["rule"])
    if check["evidence"].get("findings"):
        return rule  # findings in a cache differ from rule to rule
    fact = worst_fact(check)
    kind = _kind(fact) if fact is not None else f"{rule} {check['verdict']}"
    # What is wrong with a release differs from rule to rule, too.
    return f"{rule} {kind}" if rule.startswith("release/") else kind


def worst_fact(check: Check) -> Fact | None:
    """The fact that shows the worst harm, among equals one about a mode that is not obeyed; None if
    the check has none."""
    return min(
        facts_of(check),
        key=lambda each: (harm_in(each).rank, not _is_basic(each), each.code),
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


def _subjects(check: Check) -> set[str]:
    """The option, file or event of the worst fact, with its value."""
    fact = worst_fact(check)
    return {str(fact.subject)} if fact is not None and fact.subject is not None else set()


def _kind(fact: Fact) -> str:
    """The code of a fact; one for all outcomes by which a cache is not used, or used in vain."""
    if fact.aspect is Aspect.OUTCOME and fact.observed.startswith("compiled/"):
        if fact.observed.endswith(("/absent", "/kept")):
            return "the cache is not used"
        if all(each.startswith("reused/") for each in fact.expected):
            return "compiled again"
    return fact.code
