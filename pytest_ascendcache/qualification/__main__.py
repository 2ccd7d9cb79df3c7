"""Prints the kill matrix: which rules notice which defect.

``python -m pytest_ascendcache.qualification [--full] [--jobs N] [DEFECT|SCENE ...]``, or with
``--mutants=N [--seed=S]``, or names of mutants, for generated mutants of the reference, or with
``--matrix``, which records the checks that notice each defect, so that a quick run can try the
cheapest first. Exit status 0 when every rule has a defect or a scene, every defect is noticed by
each rule it claims to break, every scene by exactly those, each profile does what its list of known
deviations says, and the clean reference breaks nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.nodes import lacking
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.asking import (
    arguments_of,
    first_asked,
    first_of_profile,
    on_the_reference,
)
from pytest_ascendcache.qualification.catalogue import Scene
from pytest_ascendcache.qualification.defective import MISWRITTEN
from pytest_ascendcache.qualification.independent import record_by_check
from pytest_ascendcache.qualification.killed import Killed, verdicts_of
from pytest_ascendcache.qualification.loading import load_defects, load_profiles, load_scenes
from pytest_ascendcache.qualification.mutants import all_mutants
from pytest_ascendcache.qualification.mutation import chosen_mutants, measured_reach, run_mutants
from pytest_ascendcache.qualification.recording import record, record_wide
from pytest_ascendcache.qualification.runs import Asked, Ended, Named, SuiteRuns
from pytest_ascendcache.words import instead

_UNDECIDED = "undecided"
_REPETITIONS = 20


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="ci/qualify", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these defects, or scenes of files"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help=f"the whole suite on each defect, and {_REPETITIONS} runs on the clean reference",
    )
    parser.add_argument(
        "--matrix",
        action="store_true",
        help="record which checks notice these defects (default: those that have no record), for "
        "the quick runs to come",
    )
    parser.add_argument(
        "--wide",
        action="store_true",
        help="with --matrix: have the most telling checks look at every defect, for "
        "--ascend-budget to choose by",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=(os.cpu_count() or 1) + 2,
        help="runs at once (default: two more than there are cores, as some of them wait)",
    )
    parser.add_argument(
        "--mutants", type=int, metavar="N", help="judge N generated mutants of the reference"
    )
    parser.add_argument("--seed", type=int, default=0, help="which of the mutants (default: 0)")
    parser.add_argument(
        "--reach",
        type=Path,
        metavar="FILE",
        help="mutants: keep in FILE which checks reach which lines, or read it there",
    )
    parser.add_argument(
        "--judged",
        type=Path,
        metavar="FILE",
        help="mutants: keep in FILE what became of each, and judge none again that it has; those "
        "that are named here are judged anew",
    )
    parser.add_argument(
        "--by-check",
        action="store_true",
        help="mutants: record which of the checks that budgets of runs choose notice each",
    )
    given = parser.parse_args()
    if given.mutants is not None or {*given.names} & {*all_mutants()}:
        return _mutants(parser, given)
    if given.wide and not given.matrix:
        parser.error("--wide goes with --matrix")
    if given.matrix and given.full:
        parser.error("--matrix asks all checks of the rules that a defect breaks; leave out --full")
    defects, scenes = load_defects(), load_scenes()
    unknown = [name for name in given.names if name not in {*defects, *scenes}]
    if unknown:
        parser.error(
            f"no defect or scene is called {unknown[0]!r}; "
            + instead(unknown[0].replace("_", "-"), [*defects, *scenes])
        )
    whole = not given.names
    # A defect that breaks no rule by itself is there for scenes.
    chosen = [
        each
        for name, each in defects.items()
        if name in given.names or (whole and (each.breaks or each.keeps))
    ]
    # A defect is judged in each edition that it is one in.
    chosen = [replace(each, editions=(name,)) for each in chosen for name in each.editions]
    if given.matrix:
        if given.wide:
            return record_wide(chosen, given.jobs)
        return record(chosen, given.jobs, anew=not whole)
    staged = [scenes[name] for name in scenes if whole or name in given.names]
    for scene in [each for each in staged if each.needs_root and os.geteuid()]:
        print(f"not here   {scene.name:<36} {scene.what}: it takes root to make that")
        staged.remove(scene)
    failures = _rules_without_defect() if whole else 0
    profiles = list(load_profiles()) if whole else []
    runs = SuiteRuns(given.jobs)
    try:
        # The longest runs first.
        known = {} if given.full else matrix.read()
        of_profiles = {each: first_of_profile(each, given.full, runs, known) for each in profiles}
        asked = {each: first_asked(each, given.full, runs, known) for each in chosen}
        first = [*chain.from_iterable(of_profiles.values()), *asked.values()]
        ended = runs([*first, *(each.build for each in staged)])
        for name in profiles:
            failures += _report_profile(name, of_profiles[name], ended)
        again = []
        elsewhere, without = 0, lacking()
        for defect in chosen:
            killed = Killed.of(defect, next(ended))
            undecided = _UNDECIDED in killed.verdicts.values()
            if without and killed.is_elsewhere:
                elsewhere += 1
                print(f"not here   {defect.name:<36} {defect.what}: {without}")
            elif killed.survived and (undecided or isinstance(asked[defect], Named)):
                again.append(defect)
            else:
                failures += _report(killed)
        for scene in staged:
            failures += _report_scene(scene, next(ended).report)
        # An undecided check ends a run at its first failure too: here all checks have their say.
        everything = [arguments_of(each, given.full, runs, exit_first=False) for each in again]
        for defect, last in zip(again, runs(map(on_the_reference, everything)), strict=True):
            failures += _report(Killed.of(defect, last))
            if isinstance(asked[defect], Named):
                print(f"           {'':<36}   not by its recorded checks: ci/qualify --matrix")
        if given.full and whole:
            failures += _clean_runs(runs)
    finally:
        runs.close()
    total = len(chosen) + len(staged) + len(profiles) - elsewhere
    left = f", {elsewhere} not judged on this machine" if elsewhere else ""
    print(f"{max(0, total - failures)} passed, {failures} failed{left}")
    return 1 if failures else 0


def _mutants(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Judge a sample of generated mutants, or those that are named."""
    mutants = all_mutants()
    sampled = given.mutants is not None and not given.names and given.mutants > 0
    if given.full or not (sampled or (given.mutants is None and {*given.names} <= {*mutants})):
        parser.error(
            "--mutants takes a number from 1 on; beside it, and beside names of mutants, there "
            "can be no other names and no --full"
        )
    named = [mutants[name] for name in given.names]
    chosen = chosen_mutants(given.mutants, given.seed) if sampled else named
    runs = SuiteRuns(given.jobs)
    try:
        if given.by_check:
            return record_by_check(runs, chosen)
        reach = measured_reach(runs, given.reach)
        return run_mutants(runs, chosen, reach, given.judged, anew=bool(named))
    finally:
        runs.close()


def _rules_without_defect() -> int:
    claimed = {rule for each in load_defects().values() for rule in each.breaks}
    claimed |= {rule for each in load_scenes().values() for rule in each.breaks}
    wrong = 0
    for rule in load_rules():
        if rule not in claimed:
            print(f"NO DEFECT  {rule}: nothing shows that its checks can fail")
            wrong += 1
    for rule in sorted(claimed - set(load_rules())):
        print(f"NO RULE    {rule}: a defect claims to break it")
        wrong += 1
    return wrong


def _report_profile(profile: str, asked: Sequence[Asked], ended: Iterator[Ended]) -> bool:
    """Print what a profile's runs said; whether that is something else than its list says.

    With the list the run has to be green, and each entry to occur. Since only a broken promise
    can be a known deviation, that also says what a run without the list shows; in full it is
    looked at.
    """
    document = next(ended).report
    known = _checks(document, "known deviation")
    occurring = matrix.observed_deviations(document)
    entries = [each.origin for each in load_deviations(profile)]
    wrong = [
        f"{verdict}: {check}"
        for verdict in ("fail", "warn", "undecided")
        for check in _checks(document, verdict)
    ]
    wrong += [
        f"does not occur: {entry}" for entry in entries if matrix.VENDOR + entry not in occurring
    ]
    if len(asked) > 1:
        plain = next(ended).report
        bare = {*_checks(plain, "fail"), *_checks(plain, "warn")}
        wrong += [f"shown in one of two runs: {check}" for check in sorted(bare ^ set(known))]
    state = "differs" if wrong else "as listed"
    checks = len(document["checks"])
    print(
        f"{state:<9}  {profile:<36} profile: {len(known)} of {checks} checks deviate, as "
        f"{len(entries)} entries say"
    )
    for line in wrong:
        print(f"           {line}")
    return bool(wrong)


def _checks(document: Mapping[str, Any], verdict: str) -> list[str]:
    return [check["check"] for check in document["checks"] if check["verdict"] == verdict]


def _report(killed: Killed) -> bool:
    """Print one line of the matrix; whether it shows a failure."""
    others = [rule for rule in killed.by if rule not in killed.defect.breaks]
    state = "SURVIVED" if killed.survived else "killed" if killed.defect.breaks else "green"
    later = " (found later)" if killed.defect.found_later else ""
    if (edition := killed.defect.editions[0]) != DEFAULT_NAMES[CANN]:
        later += f" (CANN {edition})"
    print(f"{state:<9}  {killed.defect.name:<36} {killed.defect.what}{later}", flush=True)
    if killed.miswritten:
        print(f"           {'':<36}   {MISWRITTEN}")
    for rule in killed.defect.breaks:
        print(f"           {'':<36}   by {rule}: {killed.verdicts.get(rule, 'not run')}")
    for rule in killed.defect.keeps:
        wrong = " (must not notice)" if rule in killed.blamed else ""
        said = killed.verdicts.get(rule, "not run")
        print(f"           {'':<36}   not by {rule}: {said}{wrong}")
    if killed.defect.crash:
        expected = killed.defect.crash
        unlike = "" if killed.crashes[:1] == [expected] else f" (first must be: {expected})"
        print(f"           {'':<36}   found when: {', '.join(killed.crashes) or 'never'}{unlike}")
    if killed.harms or killed.defect.harm:
        seen = ", ".join(each.value for each in killed.harms) or "none"
        claim = killed.defect.harm
        unlike = f" (the worst must be: {claim.value})" if killed.other_harm and claim else ""
        print(f"           {'':<36}   harm: {seen}{unlike}")
    if others:
        print(f"           {'':<36}   noticed too: {', '.join(others)}")
    return killed.survived


def _report_scene(scene: Scene, document: Mapping[str, Any]) -> bool:
    """Print what was said of a scene; whether it is not exactly what the scene claims.

    A rule of which a check could not tell has not passed; where nothing passed, nothing was
    looked at.
    """
    verdicts = verdicts_of(document)
    undecided = {check["rule"] for check in document["checks"] if check["verdict"] == "undecided"}
    broken = {rule for rule, verdict in verdicts.items() if verdict in matrix.BROKEN}
    wrong = [f"missed by {rule}" for rule in scene.breaks if rule not in broken]
    wrong += [f"blamed by {rule}" for rule in sorted(broken - set(scene.breaks))]
    wrong += [f"not decided by {rule}" for rule in sorted(undecided)]
    if "pass" not in verdicts.values():
        wrong.append("no rule passes: nothing shows that it was looked at")
    kept = "noticed" if scene.breaks else "green"
    print(f"{'SURVIVED' if wrong else kept:<9}  {scene.name:<36} {scene.what}", flush=True)
    for rule in scene.breaks:
        print(f"           {'':<36}   by {rule}: {verdicts.get(rule, 'not run')}")
    for line in wrong:
        print(f"           {'':<36}   WRONG: {line}")
    return bool(wrong)


def _clean_runs(runs: SuiteRuns) -> int:
    """The clean reference breaks nothing: alone, with two workers, and beside a busy machine."""
    wrong = 0
    for number in range(_REPETITIONS):
        workers = ["-n", "2"] if number % 2 else []
        load = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range((os.cpu_count() or 1) if number % 4 >= 2 else 0)
        ]
        try:
            (ended,) = runs([on_the_reference(["--ascend-strict", *workers, PACKAGE])])
        finally:
            for process in load:
                process.kill()
                process.wait()
        verdicts = verdicts_of(ended.report)
        bad = {rule: verdict for rule, verdict in verdicts.items() if verdict != "pass"}
        how = f"{'2 workers' if workers else 'one process'}{', busy' if load else ''}"
        print(f"clean {number + 1:>2}/{_REPETITIONS} ({how}): {bad or 'all pass'}", flush=True)
        wrong += bool(bad)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
