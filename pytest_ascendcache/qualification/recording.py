"""``ci/qualify --matrix``: records in the kill matrix which checks notice which defect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pytest_ascendcache.combinations.generated import FAMILIES
from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.cover import candidates_of, cover, noticed_by
from pytest_ascendcache.qualification.judging import (
    Killed,
    arguments_of,
    on_the_reference,
    profile_runs,
    settings_of,
)
from pytest_ascendcache.qualification.loading import load_profiles
from pytest_ascendcache.qualification.runs import Named, SuiteRun, SuiteRuns
from pytest_ascendcache.toolchains.installed import OF_ATC

_GENERATED = "cache_mode/test_generated.py::"
"""The prefix of checks of generated operators."""


def record(defects: list[Defect], jobs: int, again: bool) -> int:
    """Run all checks of the rules that these defects break, and store which checks notice them.

    Unless ``again`` is set, defects with a complete record are left out. Returns 1 if a defect goes
    unnoticed, else 0.
    """
    unnoticed, known = 0, matrix.read()
    with closing(SuiteRuns(jobs)) as runs:
        if not again:
            _record_profiles(runs)
            defects = [
                each
                for each in defects
                if each.breaks
                and not matrix.is_recorded(each, known.get(matrix.name_of(each), ()), runs.checks)
            ]
        enough = f"--maxfail={matrix.MOST}"
        whole = {
            each: [*arguments_of(each, False, runs, exit_first=False), "--ascend-strict"]
            for each in defects
        }
        short = [
            on_the_reference([*whole[each], *([enough] if len(each.breaks) == 1 else [])])
            for each in defects
        ]
        results = zip(defects, runs(short), strict=True)
        nothing = [defect for defect, ended in results if not _keep(defect, ended)]
        # An undecided check may have ended a run too early: run all checks.
        repeated = runs(on_the_reference(whole[each]) for each in nothing)
        for defect, ended in zip(nothing, repeated, strict=True):
            unnoticed += not _keep(defect, ended)
        narrow(defects, runs)
    return 1 if unnoticed else 0


def narrow(defects: Sequence[Defect], runs: SuiteRuns) -> None:
    """Store the operator types that a check of generated operators needs to notice a defect.

    These are the types in the check's message, provided that a run with no others notices it too.
    """
    found = [
        (defect, kill)
        for defect in defects
        for kill in matrix.cheapest(
            defect, matrix.read().get(matrix.name_of(defect), ()), runs.checks
        )
        if kill.check.startswith(_GENERATED)
    ]
    asked = [("--ascend-cache", *settings_of(defect), kill.node) for defect, kill in found]
    named = [_types(ended.report) for ended in runs(map(Named, asked))]
    again = runs(Named(*each) for each in zip(asked, named, strict=True))
    for (defect, kill), types, ended in zip(found, named, again, strict=True):
        seen = {(each.check, each.harm) for each in matrix.noticing(ended.report)}
        enough = types and (kill.check, kill.harm) in seen
        if enough:
            known, name = matrix.read(), matrix.name_of(defect)
            narrowed = replace(kill, types=" ".join(types))
            kills = [narrowed if each.check == kill.check else each for each in known[name]]
            matrix.write({**known, name: tuple(kills)})
        needed = " ".join(types) if enough else "all types"
        print(f"{matrix.name_of(defect)} is noticed with {needed}", flush=True)


def _types(report: Mapping[str, Any]) -> tuple[str, ...]:
    """The operator types in the messages of failed checks."""
    broken = [each for each in report["checks"] if each["verdict"] in matrix.BROKEN]
    words = set(re.findall(r"\w+", " ".join(each["message"] for each in broken)))
    return tuple(sorted(words & {family.type for family in FAMILIES}))


def _record_profiles(runs: SuiteRuns) -> None:
    """Store which checks show the entries of vendors' lists, if an entry has no such check."""
    for name in load_profiles():
        entries = {each.origin for each in load_deviations(name)}
        if entries == set(matrix.shown_by(name, matrix.read(), runs.checks)):
            continue
        (arguments,) = profile_runs(name, full=False)
        (ended,) = runs([on_the_reference(arguments)])
        found = matrix.observed_deviations(ended.report)
        matrix.write({**matrix.read(), **found})
        print(f"{len(found):>4} entries of the list {name} are shown", flush=True)


_BROAD = ("cache_mode/test_lives.py::", "cache_mode/test_generated.py::")
"""Checks that may notice a defect of any rule."""
WIDE = 120
"""The budget of the selection that :func:`record_wide` runs, in runs of atc."""


def record_wide(defects: Sequence[Defect], jobs: int) -> int:
    """Run the most telling and the broadest checks on every defect, and store which notice it.

    The record otherwise has only a few checks for each defect, of the rules it claims to break,
    although other checks notice it too.
    """
    known = matrix.read()
    with closing(SuiteRuns(jobs)) as runs:
        checks = {check: rule for check, rule in runs.checks.items() if rule != STRESS_RULE}
        telling = cover(candidates_of(checks, OF_ATC), noticed_by(known, checks), WIDE).chosen
        broad = [each for each in checks if each.startswith(_BROAD)]
        chosen = dict.fromkeys([*broad, *telling])
        nodes = [matrix.node_of(each) for each in chosen]
        rules = load_rules()
        judged = [
            each
            for each in defects
            if each.editions == (DEFAULT_NAMES[CANN],)
            and each.breaks
            and all(rules[rule].capabilities <= OF_ATC for rule in each.breaks)
        ]
        asked = [Named(("--ascend-cache", *settings_of(each), *nodes)) for each in judged]
        for defect, ended in zip(judged, runs(asked), strict=True):
            if not Killed.of(defect, ended).miswritten:
                more = matrix.noticing(ended.report)
                before = matrix.read()
                name = matrix.name_of(defect)
                every = {each.check: each for each in (*before.get(name, ()), *more)}
                matrix.write({**before, name: tuple(sorted(every.values()))})
                print(f"{len(more):>4} of {len(nodes)} checks notice {name}", flush=True)
    return 0


def _keep(defect: Defect, ended: SuiteRun) -> int:
    """Store which checks of a run noticed a defect, and return how many."""
    wrong = Killed.of(defect, ended).miswritten
    kills = () if wrong else matrix.observed(defect, ended.report)
    if kills:  # at once, so that an interruption loses nothing
        matrix.write({**matrix.read(), matrix.name_of(defect): kills})
    print(f"{len(kills):>4} checks notice {matrix.name_of(defect)}", flush=True)
    return len(kills)
