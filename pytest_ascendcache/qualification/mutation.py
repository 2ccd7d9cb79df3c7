"""Runs the suite on a sample of generated mutants, and says what share of them it notices.

A mutant costs little. Its compilers are children of the server that knows every mutant. It meets
only checks that come by the changed lines (``reach``): first those that noticed another mutant of
the file, then the quickest; the first that finds fault ends the run. A check that could not tell
ends nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE, module_of
from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants, sample
from pytest_ascendcache.qualification.reach import DIRECTORY, REACHED, Reach, check_id
from pytest_ascendcache.qualification.runs import Asked, SuiteRuns

NOTICED, UNDECIDED, EQUIVALENT, NOT_PROMISED, MISSED, NEW = (
    "noticed",
    "undecided",
    "equivalent",
    "not promised",
    "missed",
    "not looked at",
)
_ROOMS = ("cache_mode", "impl_mode", "robustness", "incremental", "static_kernel")
"""The folders of the suite that judge what the mutated files decide."""
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


def run_mutants(runs: SuiteRuns, chosen: Sequence[Mutant], reach: Reach) -> int:
    """Judge mutants, print a line for each, and the share that is noticed.

    Returns 0 where the goal is reached and no check finds fault with the reference as it is.
    """
    for each in chosen:
        each.code(each.function_code)  # one that cannot be made must not count as noticed
    for fault in reach.faults:
        print(f"cries wolf     {fault}")
    found: Counter[str] = Counter()
    for mutant, state, by in _judged(runs, chosen, reach):
        found[state] += 1
        print(
            f"{state:<13}  {mutant.name}  {mutant.place}{f'   by {by}' if by else ''}", flush=True
        )
    differing = sum(found[each] for each in (NOTICED, MISSED, NEW, UNDECIDED))
    share = 100 * found[NOTICED] / differing if differing else 100.0
    counts = ", ".join(f"{number} {state}" for state, number in found.most_common())
    print(f"{counts}: {share:.0f} % of those that change behaviour are noticed ({GOAL} % wanted)")
    return 0 if share >= GOAL and not reach.faults else 1


def chosen_mutants(count: int, seed: int) -> list[Mutant]:
    """The sample, announced."""
    chosen = sample(count, seed)
    print(f"{len(chosen)} of {len(all_mutants())} mutants, seed {seed}", flush=True)
    return chosen


def measured_reach(runs: SuiteRuns, kept: Path | None) -> Reach:
    """What the checks come by: read from the file ``kept`` if it exists, else measured and
    written there."""
    if kept is not None and kept.exists():
        return Reach.load(kept)
    with tempfile.TemporaryDirectory(prefix="ascendcache-reach-") as name:

        def noting(module: str) -> Asked:
            def arguments(_: Path) -> list[str]:
                os.environ[DIRECTORY] = name  # of the child that asks; its compilers inherit it
                return ["--ascend-cache", f"--ascend-defect={REACHED.name}", module]

            return arguments

        reports = [each.report for each in runs(map(noting, runs.modules(_ROOMS)))]
        reach = Reach.read(Path(name), reports)
    if kept is not None:
        reach.save(kept)
    return reach


def _judged(
    runs: SuiteRuns, mutants: Sequence[Mutant], reach: Reach
) -> Iterator[tuple[Mutant, str, str]]:
    """What became of each, and the check that noticed it."""
    noticed: defaultdict[str, Counter[str]] = defaultdict(Counter)
    chosen = _Chosen()
    met = {mutant: reach.checks(mutant.lines) for mutant in mutants}
    # The least work first, so that what comes later knows which checks notice.
    mutants = sorted(mutants, key=lambda each: len(met[each]))

    def asked() -> Iterator[Asked]:
        for mutant in filter(met.get, mutants):
            here = noticed[mutant.path]
            chosen.checks = sorted(met[mutant], key=lambda each: -here[each])
            yield _run_of(mutant, chosen.checks)

    ended = runs(asked(), _StopAtFault(), chosen)
    for mutant in mutants:
        state, by = _state(mutant, next(ended).report if met[mutant] else {"checks": ()})
        if by in met[mutant]:
            noticed[mutant.path][by] += 1
        yield mutant, state, by


def _run_of(mutant: Mutant, checks: Iterable[str]) -> Asked:
    given = [f"--ascend-defect={mutant.name}", f"--ascend-timeout={_SECONDS}"]
    modules = sorted({f"{PACKAGE}.{module_of(each)}" for each in checks})
    return lambda _: ["--ascend-cache", *given, *modules]


def _state(mutant: Mutant, report: Mapping[str, Any]) -> tuple[str, str]:
    """What became of a mutant, and the check that noticed it."""
    checks: Sequence[Mapping[str, Any]] = report["checks"]
    for each in checks:
        if each["verdict"] in _BROKEN:
            return NOTICED, check_id(each["check"])
    if checks and all(each["verdict"] == "undecided" for each in checks):
        # A toolchain that does nothing any more: the run is red, and no check passes.
        return NOTICED, f"all of {len(checks)} checks, which are undecided"
    said = verdicts().get(mutant.place)
    unclear = next((each for each in checks if each["verdict"] == "undecided"), None)
    if said is None and unclear is not None:
        return UNDECIDED, check_id(unclear["check"])
    return said or NEW, f"none of {len(checks)} checks"


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
