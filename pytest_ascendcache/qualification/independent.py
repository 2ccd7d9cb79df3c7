"""Measures how many generated mutants of the reference each budget of runs notices.

A budget's checks are chosen by the kill matrix of seeded defects, which therefore cannot measure
the choice. Mutants have no part in it. ``ci/qualify --mutants=N --by-check`` runs the chosen checks
on each mutant of a sample and stores in ``independent.json`` which checks noticed it. The table in
docs/atc.md counts them.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.files import write_output
from pytest_ascendcache.observation import CONTROL_RUNS
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.core import core_of
from pytest_ascendcache.qualification.cover import Cover, candidates_of, cover, noticed_by
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants
from pytest_ascendcache.qualification.runs import Named, SuiteRuns
from pytest_ascendcache.toolchains.installed import OF_ATC

BUDGETS = (30, 60, 120, 300, 600)
"""Runs of atc."""
KEPT = Path(__file__).with_name("independent.json")
_ROOMS = ("reference/cache/", "reference/compiler.py", "reference/mode.py", "reference/debug.py")
_OF_ATC = (*_ROOMS, "reference/impl_mode.py")
"""The files of the reference that decide what atc decides."""
_SECONDS = 20
"""Seconds after which a run of a hanging mutant is killed."""
_PATIENCE = 180
"""Seconds after which no more checks are run on a mutant; most need about 20."""


def selections(rules: Mapping[str, str]) -> dict[int, Cover]:
    """The choice of each budget for atc, among checks (named below the suite) with their rules."""
    candidates = candidates_of(rules, OF_ATC)
    notices = noticed_by(matrix.read(), {each.check for each in candidates})
    return {each: cover(candidates, notices, each - CONTROL_RUNS) for each in BUDGETS}


def noticed() -> dict[str, frozenset[str]]:
    """The checks that noticed each mutant, by the mutant's place.

    Mutants whose expression is no longer in the reference are left out.
    """
    there = {each.place for each in all_mutants().values()}
    kept: Mapping[str, Sequence[str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return {place: frozenset(checks) for place, checks in kept.items() if place in there}


def of_atc(mutants: Sequence[Mutant]) -> list[Mutant]:
    """The mutants that change what atc decides too."""
    return [each for each in mutants if each.path.startswith(_OF_ATC)]


def record_by_check(runs: SuiteRuns, chosen: Sequence[Mutant]) -> int:
    """Store which checks notice each mutant, and print how many.

    The checks of all budgets and of the core come first. A mutant that none of them notices gets
    all others. Returns 0, because this measures and does not judge.
    """
    covers = selections(runs.checks)
    telling = {check for each in covers.values() for check in each.chosen}
    telling |= core_of(runs.checks, OF_ATC).chosen
    others = {each.check for each in candidates_of(runs.checks, OF_ATC)} - telling
    found = {place: sorted(by) for place, by in noticed().items()} if KEPT.exists() else {}
    mutants = of_atc(chosen)
    for checks in (telling, others):
        nodes = [matrix.node_of(each) for each in sorted(checks)]
        asked = [_run_of(each, nodes) for each in mutants]
        unnoticed = []
        for each, ended in zip(mutants, runs(asked, _Patience()), strict=True):
            by = _noticing(ended.report)
            print(f"{len(by):4} of {len(nodes)} checks  {each.name}  {each.place}", flush=True)
            found.pop(each.place, None)
            if by:
                found[each.place] = by
            else:
                unnoticed.append(each)
            write_output(KEPT, json.dumps(dict(sorted(found.items())), indent=1) + "\n")
        mutants = unnoticed
    return 0


class _Patience:
    """Interrupts a run that takes too long. What it would have noticed later does not count."""

    def pytest_sessionstart(self) -> None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(_PATIENCE)

    def pytest_sessionfinish(self) -> None:
        signal.alarm(0)


def _run_of(mutant: Mutant, nodes: Sequence[str]) -> Named:
    given = (f"--ascend-timeout={_SECONDS}", f"--ascend-defect={mutant.name}")
    return Named(("--ascend-cache", *given, *nodes), harm=False)


def _noticing(report: Mapping[str, Any]) -> list[str]:
    """The checks that failed, and those that are undecided because the positive control failed."""
    return sorted(
        each["check"].removeprefix(SUITE_NODES)
        for each in report["checks"]
        if each["verdict"] in matrix.BROKEN or each["evidence"]["control"]
    )
