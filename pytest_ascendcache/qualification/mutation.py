"""Runs the suite on a sample of generated mutants, and says what share of them it notices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.qualification.mutants import Mutant, all_mutants, sample
from pytest_ascendcache.qualification.runs import SuiteRuns

NOTICED, UNDECIDED, EQUIVALENT, NOT_PROMISED, MISSED, NEW = (
    "noticed",
    "undecided",
    "equivalent",
    "not promised",
    "missed",
    "not looked at",
)
_LATER = 12
GOAL = 90
"""Percent of the mutants that change behaviour which are to be noticed."""


@lru_cache(maxsize=1)
def verdicts() -> Mapping[str, str]:
    """What was said of survivors that were looked at, by name."""
    text = (Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8")
    known = {each["mutant"]: each["verdict"] for each in tomllib.loads(text).get("survivor", [])}
    wrong = {name: each for name, each in known.items() if each not in _SAID}
    if wrong:
        raise ValueError(f"mutants.toml: {wrong} must be one of {', '.join(_SAID)}")
    return known


_SAID = (EQUIVALENT, NOT_PROMISED, MISSED)


def run_mutants(runs: SuiteRuns, count: int, seed: int) -> int:
    """Judge a sample, print a line a mutant, and the share; how many were missed or are new."""
    chosen = sample(count, seed)
    print(f"{len(chosen)} of {len(all_mutants())} mutants, seed {seed}")
    states = dict(zip(chosen, _judged(runs, chosen, 1), strict=True))
    # Where the first check that did not pass was undecided, a later one may find fault.
    open_ones = [each for each in chosen if states[each][0] == UNDECIDED]
    states.update(zip(open_ones, _judged(runs, open_ones, _LATER), strict=True))
    found = Counter(state for state, _ in states.values())
    differing = found[NOTICED] + found[MISSED] + found[NEW]
    share = 100 * found[NOTICED] / differing if differing else 100.0
    counts = ", ".join(f"{number} {state}" for state, number in found.most_common())
    print(f"{counts}: {share:.0f} % of those that change behaviour are noticed ({GOAL} % wanted)")
    return 0 if share >= GOAL else 1


def _judged(runs: SuiteRuns, mutants: Sequence[Mutant], most: int) -> Iterator[tuple[str, str]]:
    """What became of each, printed as it comes."""
    ended = runs([each.asked(runs.modules, most) for each in mutants])
    for mutant, run in zip(mutants, ended, strict=True):
        state, by = _state(mutant, run.report)
        print(f"{state:<13}  {mutant.name}{f'   by {by}' if by else ''}", flush=True)
        yield state, by


def _state(mutant: Mutant, report: Mapping[str, Any]) -> tuple[str, str]:
    """What became of a mutant, and the check that noticed it."""
    checks: Sequence[Mapping[str, Any]] = report["checks"]
    broken = [each for each in checks if each["verdict"] in ("fail", "warn")]
    if broken:
        return NOTICED, str(broken[0]["rule"])
    if any(each["verdict"] == "undecided" for each in checks):
        # As where the positive control fails: a toolchain that does not work at all.
        return UNDECIDED, str(next(e["rule"] for e in checks if e["verdict"] == "undecided"))
    return verdicts().get(mutant.name, NEW), ""
