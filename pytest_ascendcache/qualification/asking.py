"""Chooses the part of the suite that a defect or a vendor's profile is run against."""

from __future__ import annotations

from itertools import chain

from pytest_ascendcache.conformance import PACKAGE, STRESS_RULE
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.killed import OF_NODES
from pytest_ascendcache.qualification.runs import Asked, Named, SuiteRuns

_HANGS = 15
"""Seconds after which a run of a hanging compiler is killed."""
_SAMPLED = 12
"""Of the checks that show no deviation of a profile, one in this many is run."""
_SIMPLER = {CrashKind.POWER_LOSS.value: ("robust/interrupted-compile",)}
"""For each kind of interruption, rules that must not notice a defect which needs that kind."""


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
    return [*_SIMPLER.get(defect.crash, ()), *defect.keeps]


def settings_of(defect: Defect) -> list[str]:
    """The options with which a defect is judged."""
    chosen = [f"--ascend-defect={defect.name}"]
    if defect.editions != (DEFAULT_NAMES[CANN],):
        chosen += [f"--ascend-edition={each}" for each in defect.editions]
    if STRESS_RULE in defect.breaks:
        # Without these options the whole suite contains no stress.
        chosen += ["--ascend-stress-steps=180", "--ascend-stress-seed=1"]
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
    recorded = sorted({*noticing, *chain.from_iterable(apart)})
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
    options = (f"--ascend-deviations={profile}", f"--ascend-profile={profile}")
    return [Named(("--ascend-cache", *options, *map(matrix.node_of, chosen)))]


def profile_runs(profile: str, full: bool) -> list[list[str]]:
    """The arguments for a profile with the list of its name and, in full, also without it."""
    plain = [f"--ascend-profile={profile}", PACKAGE]
    return [[f"--ascend-deviations={profile}", *plain], *([plain] if full else [])]
