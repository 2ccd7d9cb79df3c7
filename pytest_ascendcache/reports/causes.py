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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_ascendcache.contract import foundations, load_rules
from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Fact,
    Place,
    Subject,
    SubjectKind,
    Words,
)
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.subjects import ONCE, RUNS_END, STOPPED
from pytest_ascendcache.reports.cause import (
    BROKEN,
    UNDECIDED,
    Cause,
    Check,
    facts_of,
    is_claim,
    of_control,
    says_a_mode_is_dead,
    worst_fact,
)
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.headline import MODE, kind
from pytest_ascendcache.reports.history import (
    entry_of,
    storing_place,
    wrong_place,
)
from pytest_ascendcache.reports.localise import explanations
from pytest_ascendcache.reports.reasons import reason
from pytest_ascendcache.reports.records import harm_rank
from pytest_ascendcache.reports.requests import FAMILIES, combination, deciding, request_of

_MOST = 0.7
"""The share of a rule's broken checks above which a cause counts as that of the rule."""


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
        """Take over the checks of another group, and the worse harm."""
        self.checks += other.checks
        self.effects |= other.effects
        self.subjects |= other.subjects
        self.harm = min(self.harm, other.harm, key=harm_rank)


@dataclass(frozen=True)
class _Rules:
    """``broken`` counts the broken simple checks of each rule in the report, ``places`` is the
    place of each rule in the documents' order, ``proven`` those whose elementary checks passed."""

    broken: Mapping[str, int]
    places: Mapping[str, int]
    proven: frozenset[str]

    def by_explanation(self, group: _Group) -> list[str]:
        """The rules of a group, the one that explains the others first."""
        counts = Counter(check["rule"] for check in group.checks)
        simple = Counter(check["rule"] for check in group.simple)

        bases = {check["rule"] for check in group.checks if _breaks_a_foundation(check)}
        # What goes wrong without a kill or a power loss goes wrong with one, too.
        quiet = {each["rule"] for each in group.checks if not each["evidence"].get("crash")}

        def key(rule: str) -> tuple[bool, bool, bool, bool, int, int]:
            rests = any(each in foundations(rule) for each in counts)
            most, place = self._is_most(rule, simple[rule]), self.places.get(rule, 0)
            return rests, rule not in bases, rule not in quiet, not most, -simple[rule], place

        return sorted(counts, key=key)

    def has_most(self, one: _Group, other: _Group) -> bool:
        """Whether ``one`` has most of what is broken of a rule that is broken in ``other`` too."""
        counts = Counter(check["rule"] for check in one.simple)
        shared = {check["rule"] for check in other.simple} & {*counts}
        return any(self._is_most(rule, counts[rule]) for rule in shared)

    def _is_most(self, rule: str, count: int) -> bool:
        """Whether so many are most of the broken checks of a rule."""
        return count > self.broken[rule] * _MOST


def causes_of(report: Document) -> list[Cause]:
    """The causes of the broken checks of a JSON report, the worst first."""
    return causes(report["checks"], [rule["id"] for rule in report["rules"]])


def causes(checks: Iterable[Check], order: Sequence[str] = ()) -> list[Cause]:
    """The causes of the broken ``checks`` of a JSON report, the worst first. ``order`` has the ids
    of rules in the documents' order."""
    all_checks = list(checks)
    own, explained, waiting = _without_dependent(all_checks)
    alike: dict[tuple[str, frozenset[str], str | None], _Group] = {}
    for check in own:
        if check["verdict"] not in BROKEN or check["evidence"].get("factors"):
            continue
        request, _ = deciding(check)
        families = frozenset[str]()
        if request is not None and not of_control(check):
            families = request.families
        effect, harm = _effect(check), check.get("harm")
        group = alike.setdefault((effect, families, harm), _Group({effect}, set(), families, harm))
        group.checks.append(check)
        group.subjects |= _subjects(check)
    groups = list(alike.values())
    for check, levels in _combinations(own):
        _join(groups, check, levels)
    groups = _within_rules(groups)
    broken = Counter(check["rule"] for group in groups for check in group.simple)
    passed = {each["rule"] for each in all_checks if _is_elementary(each, ("pass",))}
    failed = {each["rule"] for each in all_checks if _is_elementary(each, BROKEN)}
    places = {rule: place for place, rule in enumerate(order)}
    rules = _Rules(broken, places, frozenset(passed - failed))
    merged = _merged(groups, rules)
    for group in merged:
        for base in {each["rule"] for each in group.checks if _breaks_a_foundation(each)}:
            group.checks += explained.pop(base, ())
    starts = sum(each["evidence"].get("starts", 0) for each in all_checks)
    ranked = []
    for group in merged:
        cause = _accident(_cause(group, rules), starts)
        idle = sum(waiting.pop(each, 0) for each in cause.rules)
        ranked.append(replace(cause, not_judged=idle))
    ranked.sort(key=_badness)
    return sorted(_united(ranked), key=_badness)


def _badness(cause: Cause) -> tuple[int, int, int]:
    return BROKEN.index(cause.verdict), harm_rank(cause.harm), -len(cause.checks)


def _united(ranked: Sequence[Cause]) -> list[Cause]:
    """Unite causes that one bug explains: those about the same option, variable, file or event,
    and those that rest on a cache mode which is not obeyed.

    Where a mode does not do what it says, whatever else runs of that mode show follows from it;
    where enable stores or serves nothing, nothing that needs an entry can be told either.
    """
    kept: list[Cause] = []

    def leads_late(cause: Cause) -> tuple[bool, ...]:
        """What lets a cause lead the others less: of two values False comes first."""
        explained = any(_explains(each.rule, cause.rule) for each in ranked)
        is_open = cause.verdict == UNDECIDED
        leads = cause.is_misplaced, cause.says_a_mode_is_dead, cause.ages_too_much
        # Last come claims, and what only combinations of many options show.
        of_combinations = all(each["evidence"].get("factors") for each in cause.checks)
        last = is_claim(cause.fact), of_combinations
        return is_open, *(not each for each in leads), explained, *last

    for cause in sorted(ranked, key=leads_late):
        place = next((at for at, each in enumerate(kept) if _follows_from(cause, each)), None)
        if place is None:
            kept.append(cause)
        else:
            kept[place] = kept[place].with_checks_of(cause)
    return kept


_OF_NO_CACHE = {"unused", "again", Aged.TOO_FEW.value, Place.MISPLACED.value, Words.MISSING.value}
"""What is seen where the cache is somewhere else."""


def _follows_from(other: Cause, one: Cause) -> bool:
    """Whether ``other`` follows from ``one``, which is decided:

    * what is undecided, if ``one`` leaves no cache to look at, or is of the same rules, or is a
      file of the release that its runs load;
    * what is milder, or not told apart by a fact, of the same rules; and a rule that one explains;
    * what is about the same option, variable, file or event;
    * what is seen where the cache is somewhere else, or where entries age that have to stay;
    * a claim that did the same harm, and whatever a mode does that is not obeyed;
    * the same seen of different options.
    """
    if one.verdict == UNDECIDED:
        return False
    unknown = other.harm in (None, Harm.NOT_DETERMINED.value)
    untold = unknown and (other.fact is None or is_claim(other.fact))
    if other.verdict == UNDECIDED:
        no_cache = one.is_misplaced or (one.says_a_mode_is_dead and one.mode == "enable")
        said = other.fact.observed if other.fact is not None else ""
        by_check = said.startswith("NotDecidable")  # not by the machine, which breaks no promise
        of_the_same = by_check and {*other.rules} <= {*one.rules}
        return no_cache or (
            one.verdict == "fail" and (of_the_same or _loads_a_bad_file(other, one))
        )
    if {*other.rules} <= {*one.rules} and (other.verdict == "warn" or untold):
        return True  # milder, or not told apart by a fact
    if _explains(one.rule, other.rule):
        return True
    if one.fact is None or other.fact is None:
        return False
    if one.names_the_same(other):
        return True
    if one.is_misplaced and other.mode == "enable":
        return kind(other.fact) in _OF_NO_CACHE
    if is_claim(other.fact) and other.harm == one.harm and not is_claim(one.fact):
        return not unknown
    if one.ages_too_much and other.mode == "enable" and kind(other.fact) in ("again", "gone"):
        return True
    subject = one.fact.subject
    if subject is not None and subject.name == MODE and kind(other.fact) == "changed":
        return subject.value == other.mode
    return one.is_general(other) or (one.says_a_mode_is_dead and other.mode == one.mode)


def _loads_a_bad_file(other: Cause, one: Cause) -> bool:
    """Whether the runs of ``other`` load a file of the release that ``one`` found to be wrong."""
    requests = (deciding(each)[0] for each in other.checks)
    return any(each is not None and _LOADS.get(one.rule) in each.options for each in requests)


_LOADS = {"release/precision-file-valid": "--op_precision_mode"}
"""Rules about a file of the release alone, and the option that loads it."""


def _is_elementary(check: Check, verdicts: Collection[str]) -> bool:
    """Whether it is an elementary check with one of these verdicts."""
    return check["verdict"] in verdicts and bool(check["evidence"].get("elementary"))


def _breaks_a_foundation(check: Check) -> bool:
    """Whether a check is a broken elementary one. Without a fact it could not tell."""
    fact = worst_fact(check) if check["evidence"].get("elementary") else None
    return fact is not None and fact.aspect is not Aspect.UNDECIDED and check["verdict"] in BROKEN


def _without_dependent(
    checks: Iterable[Check],
) -> tuple[list[Check], dict[str, list[Check]], Counter[str]]:
    """Sort checks. Returns those that may have causes of their own; those that broken elementary
    checks explain, by the rule of the latter; and how many show nothing because of a broken rule,
    by that rule."""
    checks = list(checks)
    bases = list(dict.fromkeys(each["rule"] for each in checks if _breaks_a_foundation(each)))
    broken = {each["rule"] for each in checks if each["verdict"] in BROKEN}
    own: list[Check] = []
    explained: dict[str, list[Check]] = {}
    waiting: Counter[str] = Counter()
    for check in checks:
        rests_on = {check["rule"], *foundations(check["rule"])} & {*bases}
        needed = check["evidence"].get("needs")
        is_base = _breaks_a_foundation(check)
        if not is_base and (needed in broken or (bases and of_control(check))):
            waiting[needed or bases[0]] += 1
        elif rests_on and check["verdict"] in BROKEN and not is_base:
            base = next(each for each in bases if each in rests_on)
            explained.setdefault(base, []).append(check)
        else:
            own.append(check)
    return own, explained, waiting


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


def _combinations(checks: Sequence[Check]) -> list[tuple[Check, dict[str, str]]]:
    """Broken checks of combinations, with the levels that explain each: the smallest ones that the
    check found, else what follows from which combinations passed."""
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
    """Put a check of a combination into the group that fits best: by harm and rule, effect and
    options, options, effect and some of the options, or rule."""
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
    # Harm worse than that of every group so far is what the combination adds: another cause.
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
        undecided = group.checks[0]["verdict"] == UNDECIDED
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
    """Merge related groups; the earlier one takes over the later one."""
    kept: list[_Group] = []
    for group in groups:
        last = group
        while other := next((each for each in kept if _related(each, last, rules)), None):
            kept.remove(other)
            other.absorb(last)
            last = other
        kept.append(last)
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
    if one.verdict != other.verdict or one.verdict == UNDECIDED:
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
    # The check that stands for the cause: of the explaining rule and more than a claim, if there is
    # one; of these the worst by verdict and harm, then one about a mode, then the shortest.
    telling = [each for each in ranked if not is_claim(worst_fact(each))]
    first = min(
        [each for each in telling if each["rule"] == ordered[0]]
        or telling
        or [each for each in ranked if each["rule"] == ordered[0]],
        key=lambda each: (
            BROKEN.index(each["verdict"]),
            harm_rank(each.get("harm")),
            not says_a_mode_is_dead(worst_fact(each)),
            each["evidence"].get("starts", 0),
        ),
    )
    ranked = [first, *(each for each in ranked if each is not first)]
    effects: dict[str, Check] = {}
    for each in ranked:
        effects.setdefault(_effect(each), each)
    # What could not be told may have a reason of its own in each check.
    apart = first["verdict"] == UNDECIDED and not of_control(first)
    told = ranked if apart else effects.values()
    main, *also = [reason(each, group.levels) for each in told]
    if of_control(first):
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
        fact=_about_what_to_mend(worst_fact(ranked[0]), ranked[0]),
        proven=rules.proven,
        also=tuple(dict.fromkeys(each for each in also if each != main)),
    )


def _about_what_to_mend(fact: Fact | None, check: Check) -> Fact | None:
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


def _about(fact: Fact, subject_kind: SubjectKind, name: str, value: str = "") -> Fact:
    return replace(fact, subject=Subject(subject_kind, name, value))


_KEYED = ("--op_precision_mode", "--optypelist_for_implmode", "--op_select_implmode")
"""Options that select the kernel, the one that beats the others first."""


def _effect(check: Check) -> str:
    """What kind of thing was observed instead of what kind of thing: the code of the fact that
    does the worst harm."""
    if of_control(check):
        return "control"
    rule = str(check["rule"])
    if check["evidence"].get("findings"):
        return rule  # findings in a cache differ from rule to rule
    fact = worst_fact(check)
    code = _grouping_code(fact) if fact is not None else f"{rule} {check['verdict']}"
    # What is wrong with a release differs from rule to rule, too; what did not run does not.
    apart = rule.startswith("release/") and code.partition(" ")[0] != Aspect.UNDECIDED.value
    return f"{rule} {code}" if apart else code


def _subjects(check: Check) -> set[str]:
    """The option, file or event of the worst fact, with its value."""
    fact = worst_fact(check)
    return {str(fact.subject)} if fact is not None and fact.subject is not None else set()


def _grouping_code(fact: Fact) -> str:
    """The code of a fact; one for all outcomes by which a cache is not used, or used in vain.
    Coarser than ``headline.kind``: whatever was expected."""
    if fact.aspect is Aspect.OUTCOME and fact.observed.startswith("compiled/"):
        if fact.observed.endswith(("/absent", "/kept")):
            return "the cache is not used"
        if all(each.startswith("reused/") for each in fact.expected):
            return "compiled again"
    return fact.code
