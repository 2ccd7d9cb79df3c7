"""Chooses what a defect or a profile is run against, and reads whether the run noticed a defect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pytest_ascendcache.conformance import PACKAGE, STRESS_RULE
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.defective import MISWRITTEN
from pytest_ascendcache.qualification.runs import Asked, Named, SuiteRun, SuiteRuns

OF_NODES = "shared/"
"""The prefix of rules that need several nodes."""
_HANGS = 15
"""Seconds after which a run of a hanging compiler is killed."""
_SAMPLED = 12
"""Of the checks that show no deviation of a profile, one in this many is run."""


def on_the_reference(arguments: list[str]) -> Asked:
    """A run of the suite on the reference with these arguments."""
    return lambda _: ["--ascend-cache", *arguments]


def arguments_of(defect: Defect, full: bool, runs: SuiteRuns, exit_first: bool = True) -> list[str]:
    """The arguments for a defect: the whole suite, or the checks of the rules it claims to break.

    If it claims one rule, the run ends at the first check that fails; simpler interruptions come
    first. A defect that needs a power loss must also survive all simpler interruptions.
    """
    chosen = settings_of(defect)
    if full:
        return [*chosen, PACKAGE]
    judged = [*defect.breaks, *_must_not_notice(defect)]
    first = ["--ascend-strict", "--exitfirst"] if exit_first and len(judged) == 1 else []
    rules = [f"--ascend-rule={rule}" for rule in judged]
    return [*chosen, *first, *rules, *runs.files(judged)]


def _must_not_notice(defect: Defect) -> list[str]:
    simpler = ["robust/interrupted-compile"] if defect.crash == CrashKind.POWER_LOSS.value else []
    return [*simpler, *defect.keeps]


def settings_of(defect: Defect) -> list[str]:
    """The options with which a defect is judged."""
    chosen = [f"--ascend-defect={defect.name}"]
    if defect.editions != (DEFAULT_NAMES[CANN],):
        chosen += [f"--ascend-edition={each}" for each in defect.editions]
    if STRESS_RULE in defect.breaks:
        # Without these options the whole suite contains no stress.
        chosen += ["--ascend-stress=180steps", "--ascend-seed=1"]
    if any(rule.startswith("shared/") for rule in defect.breaks):
        chosen.append("--ascend-nodes=2")
    if defect.harm is Harm.HANG:
        chosen.append(f"--ascend-timeout={_HANGS}")
    return chosen


def first_asked(defect: Defect, full: bool, runs: SuiteRuns, known: matrix.Kills) -> Asked:
    """The first run of a defect.

    It asks the cheapest checks that are known to notice the defect and, of rules that must not
    notice it, checks that notice other defects. If such checks are not known, the run is that of
    :func:`arguments_of`.
    """
    noticing = matrix.cheapest(defect, known.get(matrix.name_of(defect), ()), runs.checks)
    apart = [matrix.telling(rule, known, runs.checks) for rule in _must_not_notice(defect)]
    if full or not all([noticing or not defect.breaks, *apart]):
        return on_the_reference(arguments_of(defect, full, runs))
    recorded = sorted(
        {*noticing, *chain.from_iterable(apart)}, key=lambda each: (each.runs, each.check)
    )
    nodes = dict.fromkeys(each.node for each in recorded)
    narrowed = {type for each in recorded for type in each.types.split()}
    types = sorted(narrowed) if all(each.types for each in recorded) else ()
    arguments = ("--ascend-cache", *settings_of(defect), "--ascend-strict", *nodes)
    return Named(arguments, (*types,), harm=defect.harm is not None)


def first_of_profile(profile: str, full: bool, runs: SuiteRuns, known: matrix.Kills) -> list[Asked]:
    """The runs of a profile: the whole suite, or the cheapest check for each entry of its list of
    known deviations and a sample of the other checks."""
    shown = matrix.shown_by(profile, known, runs.checks)
    entries = {each.origin for each in load_deviations(profile)}
    if full or set(shown) != entries:
        return [on_the_reference(each) for each in profile_runs(profile, full)]
    telling = {each.check for each in shown.values()}
    others = [
        check
        for check, rule in sorted(runs.checks.items())
        if check not in telling and not rule.startswith((OF_NODES, STRESS_RULE))
    ]
    chosen = sorted({*telling, *others[::_SAMPLED]})
    options = (f"--ascend-deviations={profile}", f"--ascend-defect={profile}")
    return [Named(("--ascend-cache", *options, *map(matrix.node_of, chosen)))]


def profile_runs(profile: str, full: bool) -> list[list[str]]:
    """The arguments for a profile with the list of its name and, in full, also without it."""
    plain = [f"--ascend-defect={profile}", PACKAGE]
    return [[f"--ascend-deviations={profile}", *plain], *([plain] if full else [])]


@dataclass(frozen=True)
class Killed:
    """The result of a run of the suite on one defect.

    ``verdicts`` maps rules to verdicts. ``crashes`` are the kinds of interruption after which a
    check failed, the simplest first, and ``harms`` the kinds of harm, the worst first.
    ``miswritten`` says that the defect's own code failed. ``lacking`` are rules of nodes with
    checks that do not apply here, because this machine cannot make their mounts.
    """

    defect: Defect
    verdicts: dict[str, str]
    crashes: list[str]
    harms: list[Harm]
    miswritten: bool = False
    lacking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, defect: Defect, ended: SuiteRun) -> Killed:
        """Read it from a run."""
        report = ended.report
        miswritten = MISWRITTEN in json.dumps(report)
        lacking = frozenset(
            check["rule"]
            for check in report["checks"]
            if check["verdict"] == Verdict.NOT_APPLICABLE.value
            and check["rule"].startswith(OF_NODES)
        )
        found = verdicts_of(report), _crashes(report), _harms(report)
        return cls(defect, *found, miswritten, lacking)

    @property
    def by(self) -> list[str]:
        """Rules that noticed the defect."""
        return [rule for rule, verdict in self.verdicts.items() if verdict in matrix.BROKEN]

    @property
    def missed(self) -> list[str]:
        """Rules that should have noticed the defect and did not."""
        return [rule for rule in self.defect.breaks if rule not in self.by]

    @property
    def blamed(self) -> list[str]:
        """Rules that noticed the defect although it keeps them."""
        return [rule for rule in self.defect.keeps if rule in self.by]

    @property
    def other_harm(self) -> bool:
        """Whether the worst harm seen differs from the one the defect claims."""
        return self.defect.harm is not None and self.harms[:1] != [self.defect.harm]

    @property
    def is_elsewhere(self) -> bool:
        """Whether every rule that missed the defect has checks that do not apply on this machine,
        so that nothing follows from it."""
        return bool(self.missed) and {*self.missed} <= self.lacking

    @property
    def survived(self) -> bool:
        """Whether the run contradicts the defect's claims.

        A rule missed it, a rule noticed it that must not, its simplest interruption or its worst
        harm differs, or it failed in its own code.
        """
        simplest = self.crashes[0] if self.crashes else ""
        other = self.defect.crash not in ("", simplest) or self.other_harm
        return bool(self.missed or self.blamed) or other or self.miswritten


def _crashes(document: Mapping[str, Any]) -> list[str]:
    """The kinds of interruption after which a check failed, the simplest first."""
    found = {
        check["evidence"]["crash"]
        for check in document["checks"]
        if check["verdict"] in matrix.BROKEN
    }
    return [each.value for each in CrashKind if each.value in found]


def _harms(document: Mapping[str, Any]) -> list[Harm]:
    """The kinds of harm that failed checks saw, the worst first."""
    seen = {check["harm"] for check in document["checks"] if check["verdict"] in matrix.BROKEN}
    return [each for each in Harm if each.value in seen]


def verdicts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The verdict of each rule, including warnings of should rules."""
    verdicts = {rule["id"]: rule["verdict"] for rule in document["rules"]}
    # One failed check is enough, even if other checks of the rule are undecided.
    verdicts.update(
        {c["rule"]: c["verdict"] for c in document["checks"] if c["verdict"] in matrix.BROKEN}
    )
    return verdicts
