"""``ci/qualify --matrix``: stores which checks notice which defect, see :mod:`.matrix`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_ascendcache.combinations.generated import FAMILIES
from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.asking import (
    arguments_of,
    on_the_reference,
    profile_runs,
    settings_of,
)
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.cover import candidates_of, cover, noticed_by
from pytest_ascendcache.qualification.killed import Killed
from pytest_ascendcache.qualification.loading import load_profiles
from pytest_ascendcache.qualification.runs import Ended, Named, SuiteRuns
from pytest_ascendcache.toolchains.installed import OF_ATC

_GENERATED = "cache_mode/test_generated.py::"
"""What the names of the checks of generated operators begin with."""


def record(defects: list[Defect], jobs: int, anew: bool) -> int:
    """Ask all checks of the rules that these defects break, and store which of them notice.

    Unless they are to be recorded ``anew``, those are left out of which enough is known.
    """
    runs, unnoticed, known = SuiteRuns(jobs), 0, matrix.read()
    if not anew:
        _record_profiles(runs)
        defects = [
            each
            for each in defects
            if each.breaks
            and not matrix.tells(each, known.get(matrix.name_of(each), ()), runs.checks)
        ]
    try:
        enough = f"--maxfail={matrix.MOST}"
        asked = {each: arguments_of(each, False, runs, exit_first=False) for each in defects}
        short = [
            on_the_reference([*asked[each], "--ascend-strict", enough])
            if len(each.breaks) == 1
            else on_the_reference([*asked[each], "--ascend-strict"])
            for each in defects
        ]
        nothing: list[Defect] = []
        for defect, ended in zip(defects, runs(short), strict=True):
            if not _keep(defect, ended):
                nothing.append(defect)
        # Undecided checks may have ended a run before one noticed: here all have their say.
        whole = [on_the_reference([*asked[each], "--ascend-strict"]) for each in nothing]
        for defect, ended in zip(nothing, runs(whole), strict=True):
            unnoticed += not _keep(defect, ended)
        narrow(defects, runs)
    finally:
        runs.close()
    return 1 if unnoticed else 0


def narrow(defects: Sequence[Defect], runs: SuiteRuns) -> None:
    """Store of which types generated operators need to be for a check to notice a defect: those
    that it names, where a run with no others is seen to notice it too."""
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
        said = " ".join(types) if enough else "every type there is"
        print(f"{matrix.name_of(defect)} is noticed with {said}", flush=True)


def _types(report: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of operators that the messages of broken checks name."""
    broken = [each for each in report["checks"] if each["verdict"] in matrix.BROKEN]
    words = set(re.findall(r"\w+", " ".join(each["message"] for each in broken)))
    return tuple(sorted(words & {family.type for family in FAMILIES}))


def _record_profiles(runs: SuiteRuns) -> None:
    """Store which checks show which entry of the vendors' lists, where some is shown by none."""
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
"""Runs of the selection that :func:`record_wide` asks."""


def record_wide(defects: Sequence[Defect], jobs: int) -> int:
    """Have the most telling checks for an atc, and the broadest, look at every defect, and store
    which notice it.

    The record has no more than a few checks for each defect, and those of the rules it claims to
    break; what a selection really notices is more.
    """
    runs, known = SuiteRuns(jobs), matrix.read()
    try:
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
                matrix.write({**before, name: tuple(sorted({*before.get(name, ()), *more}))})
                print(f"{len(more):>4} of {len(nodes)} checks notice {name}", flush=True)
    finally:
        runs.close()
    return 0


def _keep(defect: Defect, ended: Ended) -> int:
    """Store which checks of a run noticed a defect; how many."""
    wrong = Killed.of(defect, ended).miswritten
    kills = () if wrong else matrix.observed(defect, ended.report)
    if kills:  # at once: what is known stays when this is interrupted
        matrix.write({**matrix.read(), matrix.name_of(defect): kills})
    print(f"{len(kills):>4} checks notice {matrix.name_of(defect)}", flush=True)
    return len(kills)
