"""Shows that the suite notices every seeded defect, and records which checks do.

``python -m pytest_ascendcache.qualification [OPTION ...] [NAME ...]``, or ``ci/qualify``. The exit
status is 0 if every rule has a defect or a scene, each rule that a defect claims to break notices
it, exactly the rules that a scene claims notice it, each profile deviates as its list says, and the
unchanged reference breaks nothing.

``--innocents`` judges what is merely different and must not be accused.
``--matrix`` records the checks that notice each defect, so that quick runs try the cheapest first.
``--mutants=N``, or names of mutants, judges generated mutants of the reference instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.subjects import RUNS_END
from pytest_ascendcache.nodes import lacking
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Company, Defect, Scene
from pytest_ascendcache.qualification.defective import MISWRITTEN
from pytest_ascendcache.qualification.independent import record_by_check
from pytest_ascendcache.qualification.innocents import QUICK, judge_innocents
from pytest_ascendcache.qualification.judging import (
    Killed,
    arguments_of,
    first_asked,
    first_of_profile,
    on_the_reference,
    verdicts_of,
)
from pytest_ascendcache.qualification.loading import (
    load_companies,
    load_defects,
    load_profiles,
    load_scenes,
)
from pytest_ascendcache.qualification.mutants import all_mutants
from pytest_ascendcache.qualification.mutation import chosen_mutants, measured_reach, run_mutants
from pytest_ascendcache.qualification.recording import record, record_wide
from pytest_ascendcache.qualification.runs import Asked, Named, SuiteRun, SuiteRuns
from pytest_ascendcache.words import instead

_UNDECIDED = "undecided"
_REPETITIONS = 20


def main() -> int:
    """Entry point."""
    parser = _parser()
    options = parser.parse_args()
    if options.mutants is not None or {*options.names} & {*all_mutants()}:
        return _mutants(parser, options)
    if options.wide and not options.matrix:
        parser.error("--wide goes with --matrix")
    if options.matrix and options.full:
        parser.error("--matrix runs all checks of the rules that a defect breaks; leave out --full")
    if options.innocents:
        return _innocents(parser, options)
    defects, scenes = load_defects(), load_scenes()
    unknown = [name for name in options.names if name not in {*defects, *scenes}]
    if unknown:
        parser.error(
            f"no defect or scene is called {unknown[0]!r}; "
            + instead(unknown[0].replace("_", "-"), [*defects, *scenes])
        )
    for name in options.names:
        if name in defects and defects[name].twin:
            parser.error(f"{name!r} is no defect, but merely different: add --innocents")
    whole = not options.names
    # Defects without rules exist for scenes. Others are judged in each of their editions.
    chosen = [
        replace(each, editions=(edition,))
        for name, each in defects.items()
        if name in options.names or (whole and (each.breaks or each.keeps))
        for edition in each.editions
    ]
    if options.matrix:
        if options.wide:
            return record_wide(chosen, options.jobs)
        return record(chosen, options.jobs, again=not whole)
    staged = [scenes[name] for name in scenes if whole or name in options.names]
    for scene in [each for each in staged if each.needs_root and os.geteuid()]:
        print(f"not here   {scene.name:<36} {scene.what}: only root can make this scene")
        staged.remove(scene)
    return _judge(chosen, staged, whole, options)


def _parser() -> argparse.ArgumentParser:
    what = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="ci/qualify", description=what)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="only these defects or scenes")
    add(
        "--full",
        action="store_true",
        help=f"the whole suite on each defect, and {_REPETITIONS} runs on the unchanged reference",
    )
    add(
        "--matrix",
        action="store_true",
        help="record which checks notice these defects (default: those without a record)",
    )
    add(
        "--wide",
        action="store_true",
        help="with --matrix: run the most telling checks on every defect, for --ascend-select",
    )
    add(
        "--jobs",
        type=int,
        default=(os.cpu_count() or 1) + 2,
        help="parallel runs (default: two more than cores, since some of them wait)",
    )
    add("--innocents", action="store_true", help="judge what is merely different (default: all)")
    add("--quick", action="store_true", help="innocents: the smallest selection, and few more")
    add("--mutants", type=int, metavar="N", help="judge N generated mutants of the reference")
    add("--seed", type=int, default=0, help="selects the mutants (default: 0)")
    add(
        "--reach",
        type=Path,
        metavar="FILE",
        help="mutants: store in FILE which checks reach which lines, or read it from there",
    )
    add(
        "--judged",
        type=Path,
        metavar="FILE",
        help="mutants: store results in FILE, and skip mutants it has unless they are named",
    )
    add(
        "--by-check",
        action="store_true",
        help="mutants: record which checks of the budgets notice each",
    )
    return parser


def _judge(
    chosen: Sequence[Defect], staged: Sequence[Scene], whole: bool, options: argparse.Namespace
) -> int:
    """Judge defects and scenes and, if that is the ``whole`` catalogue, profiles and rules."""
    failures = _rules_without_defect() if whole else 0
    profiles = list(load_profiles()) if whole else []
    with closing(SuiteRuns(options.jobs)) as runs:
        known = {} if options.full else matrix.read()
        # The longest runs first.
        of_profiles = {each: first_of_profile(each, options.full, runs, known) for each in profiles}
        asked = {each: first_asked(each, options.full, runs, known) for each in chosen}
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
        # The first run ends early, at a failed or undecided check: now run all checks.
        every = [arguments_of(each, options.full, runs, exit_first=False) for each in again]
        for defect, last in zip(again, runs(map(on_the_reference, every)), strict=True):
            failures += _report(Killed.of(defect, last))
            if isinstance(asked[defect], Named):
                _detail("not by its recorded checks: ci/qualify --matrix")
        if options.full and whole:
            failures += _clean_runs(runs)
    total = len(chosen) + len(staged) + len(profiles) - elsewhere
    left = f", {elsewhere} not judged on this machine" if elsewhere else ""
    print(f"{max(0, total - failures)} passed, {failures} failed{left}")
    return 1 if failures else 0


def _innocents(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Judge innocents: the named ones, with ``--full`` all alone and in the whole suite. Innocent
    directories and releases take no part in quick runs."""
    companies = load_companies()
    alone = {each.name: Company.of("", [each]) for of in companies.values() for each in of.members}
    staged = {name: each for name, each in load_scenes().items() if each.freedom}
    known = {**companies, **alone, **staged}
    if unknown := [each for each in options.names if each not in known]:
        parser.error(f"no innocent is called {unknown[0]!r}; {instead(unknown[0], [*known])}")
    named = options.names or [*(alone if options.full else companies)]
    chosen = [{**companies, **alone}[each] for each in named if each not in staged]
    scenes = [staged[each] for each in options.names or staged if each in staged]
    scenes = scenes if options.names or not options.quick else []
    suite = () if options.full else ("--ascend-select=core",)
    smallest, more = (("--ascend-select=60runs",), QUICK) if options.quick else ((), ())
    with closing(SuiteRuns(options.jobs)) as runs:
        ended = zip(scenes, runs(each.build for each in scenes), strict=True)
        wrong = sum(_report_scene(scene, run.report) for scene, run in ended)
        print(f"directories and releases: {len(scenes) - wrong} passed, {wrong} failed", flush=True)
        wrong += judge_innocents(runs, chosen, (*suite, *smallest), *more)
        return int(wrong > 0)


def _mutants(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Judge a sample of generated mutants, or the named ones."""
    mutants = all_mutants()
    sampled = options.mutants is not None and not options.names and options.mutants > 0
    if options.full or not (
        sampled or (options.mutants is None and {*options.names} <= {*mutants})
    ):
        parser.error(
            "--mutants takes a number of 1 or more; --mutants and names of mutants allow no other "
            "names and no --full"
        )
    named = [mutants[name] for name in options.names]
    chosen = chosen_mutants(options.mutants, options.seed) if sampled else named
    with closing(SuiteRuns(options.jobs)) as runs:
        if options.by_check:
            return record_by_check(runs, chosen)
        reach = measured_reach(runs, options.reach)
        return run_mutants(runs, chosen, reach, options.judged, again=bool(named))


def _rules_without_defect() -> int:
    claimed = {rule for each in load_defects().values() for rule in each.breaks}
    claimed |= {rule for each in load_scenes().values() for rule in each.breaks}
    wrong = 0
    for rule in load_rules():
        if rule not in claimed and rule != RUNS_END:  # broken by accidents, not by a check
            print(f"NO DEFECT  {rule}: no defect or scene shows that its checks can fail")
            wrong += 1
    for rule in sorted(claimed - set(load_rules())):
        print(f"NO RULE    {rule}: a defect claims to break it")
        wrong += 1
    return wrong


def _report_profile(profile: str, asked: Sequence[Asked], ended: Iterator[SuiteRun]) -> bool:
    """Print the result of a profile. Returns whether it differs from the profile's list.

    With the list the run must be green, and each entry must occur. Only a broken promise can be a
    known deviation, so this also tells what a run without the list shows; --full checks that.
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


def _detail(text: str) -> None:
    """Print a line below the name of a defect or scene."""
    print(f"{'':<47}   {text}")


def _report(killed: Killed) -> bool:
    """Print the result of a defect. Returns whether it is a failure."""
    defect = killed.defect
    others = [rule for rule in killed.by if rule not in defect.breaks]
    state = "SURVIVED" if killed.survived else "killed" if defect.breaks else "green"
    later = " (found later)" if defect.found_later else ""
    if (edition := defect.editions[0]) != DEFAULT_NAMES[CANN]:
        later += f" (CANN {edition})"
    print(f"{state:<9}  {defect.name:<36} {defect.what}{later}", flush=True)
    if killed.miswritten:
        _detail(MISWRITTEN)
    for rule in defect.breaks:
        _detail(f"by {rule}: {killed.verdicts.get(rule, 'not run')}")
    for rule in defect.keeps:
        wrong = " (must not notice)" if rule in killed.blamed else ""
        _detail(f"not by {rule}: {killed.verdicts.get(rule, 'not run')}{wrong}")
    if defect.crash:
        unlike = "" if killed.crashes[:1] == [defect.crash] else f" (first must be: {defect.crash})"
        _detail(f"found when: {', '.join(killed.crashes) or 'never'}{unlike}")
    if killed.harms or defect.harm:
        seen = ", ".join(each.value for each in killed.harms) or "none"
        claim = defect.harm
        unlike = f" (the worst must be: {claim.value})" if killed.other_harm and claim else ""
        _detail(f"harm: {seen}{unlike}")
    if others:
        _detail(f"noticed too: {', '.join(others)}")
    return killed.survived


def _report_scene(scene: Scene, document: Mapping[str, Any]) -> bool:
    """Print the result of a scene. Returns whether it differs from what the scene claims.

    A rule with an undecided check has not passed. If no rule passes, nothing was judged.
    """
    verdicts = verdicts_of(document)
    undecided = {check["rule"] for check in document["checks"] if check["verdict"] == _UNDECIDED}
    broken = {rule for rule, verdict in verdicts.items() if verdict in matrix.BROKEN}
    wrong = [f"missed by {rule}" for rule in scene.breaks if rule not in broken]
    wrong += [f"blamed by {rule}" for rule in sorted(broken - set(scene.breaks))]
    if not scene.unread:
        wrong += [f"not decided by {rule}" for rule in sorted(undecided)]
    elif not undecided:
        wrong.append("no rule is undecided, although something cannot be read")
    if "pass" not in verdicts.values() and not scene.unread:
        wrong.append("no rule passes: nothing shows that it was judged")
    state = "SURVIVED" if wrong else "noticed" if scene.breaks else "green"
    print(f"{state:<9}  {scene.name:<36} {scene.what}", flush=True)
    for rule in scene.breaks:
        _detail(f"by {rule}: {verdicts.get(rule, 'not run')}")
    for line in wrong:
        _detail(f"WRONG: {line}")
    return bool(wrong)


def _clean_runs(runs: SuiteRuns) -> int:
    """Count failed runs on the unchanged reference: alone, with two workers, and under load."""
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
