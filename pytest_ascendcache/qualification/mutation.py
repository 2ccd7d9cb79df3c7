"""Runs the suite on a sample of generated mutants, and says what share of them it notices.

A mutant costs little. Its compilers are children of the server that knows every mutant. It meets
only checks that come by the changed lines (``reach``): first those that noticed another change of
the function or the file, be it a mutant or a seeded defect, then the quickest; the first that finds
fault ends the run. A check that could not tell ends nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES, module_of
from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.nodes import lacking
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.alone import NothingShared
from pytest_ascendcache.qualification.loading import load_defects
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants, sample
from pytest_ascendcache.qualification.reach import (
    DIRECTORY,
    REACHED,
    Reach,
    check_id,
)
from pytest_ascendcache.qualification.runs import Asked, SuiteRuns

NOTICED, UNDECIDED, EQUIVALENT, NOT_PROMISED, MISSED, NEW = (
    "noticed",
    "undecided",
    "equivalent",
    "not promised",
    "missed",
    "not looked at",
)
_ROOMS = ("cache_mode", "impl_mode", "robustness", "incremental", "static_kernel", "shared")
"""The folders of the suite that judge what the mutated files decide; ``shared`` has checks of
nodes, where this machine can have mounts of its own."""
_BROKEN = ("fail", "warn")
_SECONDS = 60
"""What a run of a mutant that never ends costs; enough for a large run on a busy machine."""
GOAL = 90
"""Percent of the mutants that change behaviour which are to be noticed."""


@lru_cache(maxsize=1)
def verdicts() -> Mapping[str, str]:
    """What was said of survivors that were looked at, by their places."""
    text = (Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8")
    known = {each["mutant"]: each["verdict"] for each in tomllib.loads(text).get("survivor", [])}
    wrong = {name: each for name, each in known.items() if each not in _SAID}
    if wrong:
        raise ValueError(f"mutants.toml: {wrong} must be one of {', '.join(_SAID)}")
    return known


_SAID = (EQUIVALENT, NOT_PROMISED, MISSED)


@dataclass(frozen=True)
class Judged:
    """What became of a mutant: the check that noticed it, if any, how many were asked until then
    of those that come by its lines, and how long they took, in seconds."""

    state: str
    by: str
    asked: int
    seconds: float


def run_mutants(
    runs: SuiteRuns,
    chosen: Sequence[Mutant],
    reach: Reach,
    kept: Path | None = None,
    anew: bool = False,
) -> int:
    """Judge mutants, print a line for each, and the share that is noticed.

    What became of them is kept in the file ``kept``; a mutant that is found there is not judged
    again, unless all are to be judged ``anew``. Returns 0 where the goal is reached and no check
    finds fault with the reference as it is.
    """
    for each in chosen:
        each.code(each.function_code)  # one that cannot be made must not count as noticed
    for fault in reach.faults:
        print(f"cries wolf     {fault}")
    known = {} if anew else _read(kept)
    found: Counter[str] = Counter()
    again = [each for each in chosen if each.name not in known]
    before = ((each, known[each.name]) for each in chosen if each.name in known)
    for mutant, judged in chain(before, _judged(runs, again, reach)):
        state = judged.state
        if state != NOTICED:
            state = verdicts().get(mutant.place, state)
        found[state] += 1
        cost = f"{judged.asked} asked, {judged.seconds:.1f} s"
        print(f"{state:<13}  {mutant.name}  {mutant.place}   by {judged.by} ({cost})", flush=True)
        if kept is not None and mutant.name not in known:
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps({'mutant': mutant.name, **vars(judged)})}\n")
    differing = sum(found[each] for each in (NOTICED, MISSED, NEW, UNDECIDED))
    share = 100 * found[NOTICED] / differing if differing else 100.0
    counts = ", ".join(f"{number} {state}" for state, number in found.most_common())
    print(f"{counts}: {share:.0f} % of those that change behaviour are noticed ({GOAL} % wanted)")
    return 0 if share >= GOAL and not reach.faults else 1


def _read(kept: Path | None) -> dict[str, Judged]:
    """What became of mutants that were judged before; the last line of each counts."""
    if kept is None or not kept.exists():
        return {}
    lines = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return {each.pop("mutant"): Judged(**each) for each in lines}


def chosen_mutants(count: int, seed: int) -> list[Mutant]:
    """The sample, announced."""
    chosen = sample(count, seed)
    print(f"{len(chosen)} of {len(all_mutants())} mutants, seed {seed}", flush=True)
    return chosen


def measured_reach(runs: SuiteRuns, kept: Path | None) -> Reach:
    """What the checks come by: read from the file ``kept`` as far as it says it, the rest measured
    and written there."""
    known = Reach.load(kept) if kept is not None and kept.exists() else Reach({}, {}, ())
    modules = [each.removeprefix(f"{PACKAGE}.") for each in runs.modules(_ROOMS)]
    there = [check_id(SUITE_NODES + each) for each in runs.checks if module_of(each) in modules]
    lacking = sorted({f"{PACKAGE}.{module_of(each)}" for each in known.lacks(there)})
    if not lacking:
        return known
    with tempfile.TemporaryDirectory(prefix="ascendcache-reach-") as name:

        def noting(module: str) -> Asked:
            def arguments(_: Path) -> list[str]:
                os.environ[DIRECTORY] = name  # of the child that asks; its compilers inherit it
                return [*_options(), f"--ascend-defect={REACHED.name}", module]

            return arguments

        reports = [each.report for each in runs(map(noting, lacking), NothingShared())]
        reach = known.with_others(Reach.read(Path(name), reports))
        reach = replace(reach, left_out=reach.left_out.union(reach.lacks(there)))
    if kept is not None:
        reach.save(kept)
    return reach


def _judged(
    runs: SuiteRuns, mutants: Sequence[Mutant], reach: Reach
) -> Iterator[tuple[Mutant, Judged]]:
    """What became of each."""
    noticed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    chosen = _Chosen()
    met = {mutant: reach.checks(mutant.lines) for mutant in mutants}
    # The least work first, so that what comes later knows which checks notice.
    mutants = sorted(mutants, key=lambda each: len(met[each]))

    def asked() -> Iterator[Asked]:
        for mutant in filter(met.get, mutants):
            here, known = noticed[mutant.path], known_to_notice(mutant)
            chosen.checks = sorted(met[mutant], key=lambda each: -known[each] - here[each])
            yield _run_of(mutant, chosen.checks)

    ended = runs(asked(), _StopAtFault(), chosen)
    for mutant in mutants:
        judged = _state(next(ended).report if met[mutant] else {"checks": ()})
        if judged.by in met[mutant]:
            noticed[mutant.path][judged.by] += 1
        yield mutant, judged


def known_to_notice(mutant: Mutant) -> Mapping[str, int]:
    """Checks that are recorded to notice seeded defects of the function that is changed, or of
    others of its file, and of how many; those of the function count for more."""
    found: Counter[str] = Counter()
    for name, kills in _recorded().items():
        for path, function in load_defects()[name].replaces:
            weight = 10 if function == mutant.function else 1
            if path == mutant.path:
                found.update({SUITE_NODES + each.check: weight for each in kills})
    return found


@lru_cache(maxsize=1)
def _recorded() -> matrix.Kills:
    return {name: kills for name, kills in matrix.read().items() if name in load_defects()}


def _run_of(mutant: Mutant, checks: Iterable[str]) -> Asked:
    given = [f"--ascend-defect={mutant.name}", f"--ascend-timeout={_SECONDS}"]
    modules = sorted({f"{PACKAGE}.{module_of(each)}" for each in checks})
    return lambda _: [*_options(), *given, *modules]


@lru_cache(maxsize=1)
def _options() -> tuple[str, ...]:
    return ("--ascend-cache",) if lacking() else ("--ascend-cache", "--ascend-nodes=2")


def _state(report: Mapping[str, Any]) -> Judged:
    """What became of a mutant."""
    checks: Sequence[Mapping[str, Any]] = report["checks"]
    cost = len(checks), sum(each["seconds"] for each in checks)
    for each in checks:
        if each["verdict"] in _BROKEN:
            return Judged(NOTICED, check_id(each["check"]), *cost)
    unsure = [each for each in checks if each["verdict"] == "undecided"]
    if unsure and all(each["evidence"]["control"] for each in unsure):
        # The toolchain does not even do what the positive control asks for: the run is red, and
        # says so before anything else.
        return Judged(NOTICED, f"the positive control, {len(unsure)} undecided", *cost)
    if checks and len(unsure) == len(checks):
        return Judged(NOTICED, f"all of {len(checks)} checks, which are undecided", *cost)
    if unsure:
        return Judged(UNDECIDED, check_id(unsure[0]["check"]), *cost)
    return Judged(NEW, "none", *cost)


class _StopAtFault:
    """Ends a run at the first check that finds fault; one that could not tell ends nothing."""

    def __init__(self) -> None:
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._session and getattr(report, "ascend_verdict", "") in _BROKEN:
            self._session.shouldstop = "a check found fault"


class _Chosen:
    """Leaves only the chosen checks, in their order."""

    checks: Sequence[str] = ()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: number for number, name in enumerate(self.checks)}
        kept = [each for each in items if check_id(each.nodeid) in order]
        items[:] = sorted(kept, key=lambda each: order[check_id(each.nodeid)])
