"""What the checks of the suite cost, as recorded: in runs of the toolchain, and asleep; and what
they need of a toolchain.

``starts.json`` has the runs of each function of the suite, as counted on the reference. For the
reference itself, and for functions of other toolchains that start several kinds of process, it has
a pair under the toolchain's name and theirs: their time in that of its shortest run, and seconds
that are slept.
``ci/starts`` brings it up to date.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from pytest_ascendcache.conformance import PACKAGE, module_of
from pytest_ascendcache.conformance.kit.surroundings import DIRECTORIES, OTHERS, together_with
from pytest_ascendcache.contract import Capability, load_rules

_LIVES = "cache_mode/test_lives.py::"
_SURROUNDINGS = "cache_mode/test_surroundings.py::"
TOGETHER = frozenset(
    {
        "cache_mode/test_cache_mode_key.py::test_a_changed_parameter_has_its_own_entry",
        f"{_SURROUNDINGS}test_a_directory_is_used_however_it_is_named",
        f"{_SURROUNDINGS}test_nothing_around_a_run_decides_what_it_does",
        "robustness/test_robust.py::test_a_damaged_entry_heals",
        "robustness/test_robust.py::test_an_entry_as_it_was_written_heals",
    }
)
"""Functions whose cases are asked in one story, or in a few, as long as those go well."""
UNKNOWN = 2.0
"""Runs of a check that is not in the table."""


def runs_of(check: str, toolchain: str = "") -> float:
    """Runs that a check needs on average, named below the suite, with or without a case."""
    return _cost(check, toolchain)[0]


def asleep_of(check: str, toolchain: str = "") -> float:
    """Seconds that a check waits while no processor is used."""
    return _cost(check, toolchain)[1]


def life_of(check: str) -> str:
    """What the cases of a function that look at the same runs have in common; empty for a check
    with runs of its own."""
    function, _, case = check.partition("[")
    if function.startswith(_SURROUNDINGS):
        return f"{function}[{_story_of().get(case.removesuffix(']'), case)}"
    return function if function.startswith(_LIVES) or function in TOGETHER else ""


@cache
def _story_of() -> dict[str, str]:
    """The story of each case of surroundings, by the name of the case."""
    cases = {each.name: together_with(each) for each in (*DIRECTORIES, *OTHERS)}
    return {name.replace(" ", "-"): story.name for name, story in cases.items() if story}


def shares(checks: Iterable[str], toolchain: str = "") -> dict[str, float]:
    """What each of these checks costs, in runs, where no others are run with them.

    Cases of a life look at the same runs: those that are there share what all of them cost.
    """
    found = {each: runs_of(each, toolchain) for each in checks}
    lives = Counter(life for each in found if (life := life_of(each)))
    for each in found:
        if life := life_of(each):
            function = life.partition("[")[0]
            found[each] *= max(1, _cases_of(function)) / _stories_of(function) / lives[life]
    return found


@cache
def _stories_of(function: str) -> int:
    """How many stories the cases of a function share."""
    told = {
        f"{_SURROUNDINGS}test_a_directory_is_used_however_it_is_named": DIRECTORIES,
        f"{_SURROUNDINGS}test_nothing_around_a_run_decides_what_it_does": OTHERS,
    }
    return len({together_with(each) or each for each in told.get(function, ())}) or 1


_OF_FIXTURES = {"network": Capability.INCREMENTAL_BUILD, "kernels": Capability.OP_COMPILER}
"""What fixtures need beyond the rule of a check that is about several kinds of cache."""


@cache
def needs_of(check: str) -> frozenset[Capability]:
    """What a check needs of a toolchain, named below the suite: nothing where there is none.

    Where its cases have rules of their own, what those need is left out."""
    function = _function_of(check.partition("[")[0])
    if function is None:
        return frozenset()
    parameters = inspect.signature(function).parameters
    needed = {need for fixture, need in _OF_FIXTURES.items() if fixture in parameters}
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "ascend_rule" and mark.args[0] in load_rules():
            needed |= load_rules()[mark.args[0]].capabilities
    return frozenset(needed)


@cache
def _cases_of(name: str) -> int:
    """How many cases a function of one parameter has; 0 where there is no such function."""
    marks = getattr(_function_of(name), "pytestmark", ())
    return sum(len(mark.args[1]) for mark in marks if mark.name == "parametrize")


def _function_of(name: str) -> Callable[..., object] | None:
    """A function of the suite, named below it."""
    try:
        module = importlib.import_module(f"{PACKAGE}.{module_of(name)}")
        found: Callable[..., object] = getattr(module, name.partition("::")[2])
    except (ModuleNotFoundError, AttributeError):
        return None
    return found


def _cost(check: str, toolchain: str) -> tuple[float, float]:
    function = check.partition("[")[0]
    found = _table().get(f"{toolchain} {function}", _table().get(function, UNKNOWN))
    return (found[0], found[1]) if isinstance(found, list) else (found, 0.0)


@cache
def _table() -> dict[str, float | list[float]]:
    text = Path(__file__).with_name("starts.json").read_text("utf-8")
    found: dict[str, float | list[float]] = json.loads(text)
    return found
