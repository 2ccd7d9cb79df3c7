"""Runs the suite on a sample of generated mutants and prints what share of them it notices.

A mutant costs little: its compilers are children of a server that knows every mutant, and only
checks that run the changed lines (``reach``) look at it. Checks that noticed another change of the
function or the file, by a mutant or a seeded defect, come first, then the quickest. The first
failure ends the run; an undecided check does not.
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
from pytest_ascendcache.qualification.loading import load_defects
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants, sample
from pytest_ascendcache.qualification.reach import DIRECTORY, REACHED, Reach, check_id
from pytest_ascendcache.qualification.runs import Asked, SuiteRuns

NOTICED, UNDECIDED, NEW = "noticed", "undecided", "not looked at"
EQUIVALENT, NOT_PROMISED, MISSED = _VERDICTS = "equivalent", "not promised", "missed"
_ROOMS = ("cache_mode", "impl_mode", "robustness", "incremental", "static_kernel", "shared")
"""The folders of the suite that judge what the mutated files decide. ``shared`` applies only on
machines that can make mounts."""
_SECONDS = 60
"""Seconds after which a run of a hanging mutant is killed; enough for a large one under load."""
GOAL = 90
"""The wanted share of noticed mutants, in percent of those that change behaviour."""


@lru_cache(maxsize=1)
def verdicts() -> Mapping[str, str]:
    """The triage verdict of each examined survivor, by the mutant's place."""
    text = (Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8")
    known = {each["mutant"]: each["verdict"] for each in tomllib.loads(text).get("survivor", [])}
    wrong = {name: each for name, each in known.items() if each not in _VERDICTS}
    if wrong:
        raise ValueError(f"mutants.toml: {wrong} must be one of {', '.join(_VERDICTS)}")
    return known


@dataclass(frozen=True)
class JudgedMutant:
    """The result of a mutant: the check that noticed it, if any, how many checks were run until
    then, and how long they took, in seconds."""

    state: str
    by: str
    asked: int
    seconds: float


def run_mutants(
    runs: SuiteRuns,
    chosen: Sequence[Mutant],
    reach: Reach,
    kept: Path | None = None,
    again: bool = False,
) -> int:
    """Judge mutants, and print a line for each and the share that is noticed.

    The file ``kept`` stores the results. A mutant that it contains is not judged again unless
    ``again`` is set. Returns 0 if the goal is reached and no check fails with the unchanged
    reference, else 1.
    """
    for each in chosen:
        each.code(each.function_code)  # a mutant that cannot be made must not count as noticed
    for fault in reach.faults:
        print(f"cries wolf     {fault}")
    known = {} if again else _read(kept)
    states: Counter[str] = Counter()
    pending = [each for each in chosen if each.name not in known]
    before = ((each, known[each.name]) for each in chosen if each.name in known)
    for mutant, judged in chain(before, _judged(runs, pending, reach)):
        state = judged.state
        if state != NOTICED:
            state = verdicts().get(mutant.place, state)
        states[state] += 1
        cost = f"{judged.asked} asked, {judged.seconds:.1f} s"
        print(f"{state:<13}  {mutant.name}  {mutant.place}   by {judged.by} ({cost})", flush=True)
        if kept is not None and mutant.name not in known:
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps({'mutant': mutant.name, **vars(judged)})}\n")
    differing = sum(states[each] for each in (NOTICED, MISSED, NEW, UNDECIDED))
    share = 100 * states[NOTICED] / differing if differing else 100.0
    counts = ", ".join(f"{number} {state}" for state, number in states.most_common())
    print(f"{counts}: {share:.0f} % of those that change behaviour are noticed ({GOAL} % wanted)")
    return 0 if share >= GOAL and not reach.faults else 1


def _read(kept: Path | None) -> dict[str, JudgedMutant]:
    """The stored results by mutant. The last line of each mutant counts."""
    if kept is None or not kept.exists():
        return {}
    lines = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return {each.pop("mutant"): JudgedMutant(**each) for each in lines}


def chosen_mutants(count: int, seed: int) -> list[Mutant]:
    """Draw the sample and announce it."""
    chosen = sample(count, seed)
    print(f"{len(chosen)} of {len(all_mutants())} mutants, seed {seed}", flush=True)
    return chosen


def measured_reach(runs: SuiteRuns, kept: Path | None) -> Reach:
    """The lines that checks run. Those that ``kept`` lacks are measured and stored there."""
    known = Reach.load(kept) if kept is not None and kept.exists() else Reach({}, {}, ())
    modules = [each.removeprefix(f"{PACKAGE}.") for each in runs.modules(_ROOMS)]
    there = [check_id(SUITE_NODES + each) for each in runs.checks if module_of(each) in modules]
    lacking = sorted({f"{PACKAGE}.{module_of(each)}" for each in known.lacks(there)})
    if not lacking:
        return known
    with tempfile.TemporaryDirectory(prefix="ascendcache-reach-") as name:

        def noting(module: str) -> Asked:
            def arguments(_: Path) -> list[str]:
                os.environ[DIRECTORY] = name  # in the child; its compilers inherit it
                return [*_options(), f"--ascend-defect={REACHED.name}", module]

            return arguments

        reports = [each.report for each in runs(map(noting, lacking), _NothingShared())]
        reach = known.with_others(Reach.read(Path(name), reports))
        reach = replace(reach, left_out=reach.left_out.union(reach.lacks(there)))
    if kept is not None:
        reach.save(kept)
    return reach


def _judged(
    runs: SuiteRuns, mutants: Sequence[Mutant], reach: Reach
) -> Iterator[tuple[Mutant, JudgedMutant]]:
    """The result of each mutant."""
    noticed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    chosen = _Chosen()
    met = {mutant: reach.checks(mutant.lines) for mutant in mutants}
    # The least work first: later mutants then know which checks notice changes.
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
    """A weight for each check that is recorded to notice seeded defects of the mutant's file.

    Defects of the changed function count for more.
    """
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


def _state(report: Mapping[str, Any]) -> JudgedMutant:
    """The result of a mutant's run."""
    checks: Sequence[Mapping[str, Any]] = report["checks"]
    cost = len(checks), sum(each["seconds"] for each in checks)
    for each in checks:
        if each["verdict"] in matrix.BROKEN:
            return JudgedMutant(NOTICED, check_id(each["check"]), *cost)
    unsure = [each for each in checks if each["verdict"] == "undecided"]
    if unsure and all(each["evidence"]["control"] for each in unsure):
        # The positive control failed: users see a red run that says so first.
        return JudgedMutant(NOTICED, f"the positive control, {len(unsure)} undecided", *cost)
    if checks and len(unsure) == len(checks):
        return JudgedMutant(NOTICED, f"all of {len(checks)} checks, which are undecided", *cost)
    if unsure:
        return JudgedMutant(UNDECIDED, check_id(unsure[0]["check"]), *cost)
    return JudgedMutant(NEW, "none", *cost)


class _StopAtFault:
    """Ends a run at the first failed check; an undecided check does not end it."""

    _session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._session and getattr(report, "ascend_verdict", "") in matrix.BROKEN:
            self._session.shouldstop = "a check found fault"


class _Chosen:
    """Keeps only the chosen checks, in their order."""

    checks: Sequence[str] = ()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: number for number, name in enumerate(self.checks)}
        kept = [each for each in items if check_id(each.nodeid) in order]
        items[:] = sorted(kept, key=lambda each: order[check_id(each.nodeid)])


class _NothingShared:
    """Makes each check do itself what the checks of a session share, so that its notes have every
    line it runs when it is run alone."""

    _session: Any = None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Remember the session's shared state."""
        made: Any = yield
        if fixturedef.argname == "ascend_session":
            self._session = made.get_result()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget what was compiled for earlier checks."""
        if self._session is None:
            return
        state = vars(self._session)
        for name in ("shared", "package_shelf"):
            state.pop(name, None)
        if "network_control" in state:
            state["network_control"] = replace(state["network_control"], warm={}, shelf=None)
