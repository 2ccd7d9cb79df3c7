"""The recorded costs of the suite's checks, and the capabilities that they need.

``starts.json`` has the runs of each check function on the reference. Under a toolchain's name and
the function's it may have a pair instead: the time in units of that toolchain's shortest run, and
the seconds it sleeps. ``ci/starts`` updates the file.
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
from pytest_ascendcache.contract import Capability, load_rules

_LIVES = "cache_mode/test_lives.py::"
TOGETHER = frozenset(
    {
        "cache_mode/test_cache_mode_key.py::test_a_changed_parameter_has_its_own_entry",
        "impl_mode/test_effect.py::test_an_option_chooses_between_kernels",
        "impl_mode/test_effect.py::test_high_precision_is_the_more_accurate",
        "robustness/test_robust.py::test_a_damaged_entry_heals",
        "robustness/test_robust.py::test_an_entry_as_it_was_written_heals",
    }
)
"""Functions whose cases share one story or a few, as long as those go well."""
UNKNOWN = 2.0
"""Runs assumed for a check that is not in the table."""


def runs_of(check: str, toolchain: str = "") -> float:
    """The average runs of a check, named relative to the suite, with or without a case."""
    return _cost(check, toolchain)[0]


def asleep_of(check: str, toolchain: str = "") -> float:
    """Seconds that a check waits without using a processor."""
    return _cost(check, toolchain)[1]


def life_of(check: str) -> str:
    """A name that cases of the same runs share; empty for a check with its own runs."""
    function = check.partition("[")[0]
    return function if function.startswith(_LIVES) or function in TOGETHER else ""


def shares(checks: Iterable[str], toolchain: str = "") -> dict[str, float]:
    """What each of these checks costs, in runs, if only they are run; cases of the same runs share
    them."""
    costs = {check: runs_of(check, toolchain) for check in checks}
    lives = Counter(life for check in costs if (life := life_of(check)))
    for check in costs:
        if life := life_of(check):
            costs[check] *= max(1, _cases_of(life)) / lives[life]
    return costs


_OF_FIXTURES = {"network": Capability.INCREMENTAL_BUILD, "kernels": Capability.OP_COMPILER}
"""Capabilities that fixtures need, for checks whose rule is about several kinds of cache."""


@cache
def needs_of(check: str) -> frozenset[Capability]:
    """The capabilities that a check needs, named relative to the suite; empty if there is no such
    check. Capabilities that only the rules of single cases need are left out."""
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
def is_elementary(check: str) -> bool:
    """Whether a check, named relative to the suite, is marked as elementary."""
    function, _, case = check.partition("[")
    marks = getattr(_function_of(function), "pytestmark", ())
    named = [mark.args for mark in marks if mark.name == "ascend_elementary"]
    return any(not cases or case.removesuffix("]") in cases for cases in named)


@cache
def _cases_of(name: str) -> int:
    """The number of cases of a function with one parameter; 0 if there is no such function."""
    marks = getattr(_function_of(name), "pytestmark", ())
    return sum(len(mark.args[1]) for mark in marks if mark.name == "parametrize")


def _function_of(name: str) -> Callable[..., object] | None:
    """A function of the suite, by its name relative to the suite."""
    try:
        module = importlib.import_module(f"{PACKAGE}.{module_of(name)}")
    except ModuleNotFoundError:
        return None
    function: Callable[..., object] | None = getattr(module, name.partition("::")[2], None)
    return function


def _cost(check: str, toolchain: str) -> tuple[float, float]:
    function = check.partition("[")[0]
    cost = _table().get(f"{toolchain} {function}", _table().get(function, UNKNOWN))
    return (cost[0], cost[1]) if isinstance(cost, list) else (cost, 0.0)


@cache
def _table() -> dict[str, float | list[float]]:
    text = Path(__file__).with_name("starts.json").read_text("utf-8")
    table: dict[str, float | list[float]] = json.loads(text)
    return table
