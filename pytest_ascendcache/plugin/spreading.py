"""How long a run takes, and how its tests are spread over xdist workers: the costly ones go first.

A run of atc takes seconds and hosts have many cores, so the last check to start decides when the
session ends. Checks that share their runs of the toolchain stay on one worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.combinations import batches
from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import (
    asleep_of,
    is_elementary,
    life_of,
    needs_of,
    shares,
)
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.session import AscendSession

_COMBINATIONS = "cache_mode/test_combinations.py::"
_PORTIONS = 4
"""A worker takes this fraction of its share of the user's own tests that are left, in order."""


def spread(config: pytest.Config, tests: Sequence[str]) -> list[list[int]]:
    """Divide tests into portions that one worker takes at a time; the gang controller calls it.

    Returns portions of positions in ``tests``, in the order in which workers take them: the suite's
    checks first, elementary and then expensive ones at the front; then the user's own tests.
    """
    names = [each.removeprefix(SUITE_NODES) for each in tests]
    batches_of = _batches(config, names)
    portions: dict[str, list[int]] = {}
    users: list[int] = []
    for position, name in enumerate(names):
        if name == tests[position]:
            users.append(position)
        else:
            portions.setdefault(batches_of.get(name, name), []).append(position)
    toolchain = settings_of(config).toolchain
    runs = shares((names[each] for portion in portions.values() for each in portion), toolchain)

    def cost(portion: list[int]) -> float:
        return sum(runs[names[each]] + asleep_of(names[each], toolchain) for each in portion)

    ordered = sorted(portions.values(), key=cost, reverse=True)
    ordered.sort(key=lambda portion: not any(is_elementary(names[each]) for each in portion))
    workers = len(config.getoption("tx", None) or "1")
    while users:  # smaller and smaller portions, so that all workers finish together
        size = max(1, len(users) // (_PORTIONS * workers))
        ordered.append(users[:size])
        del users[:size]
    return ordered


def _batches(config: pytest.Config, names: Sequence[str]) -> dict[str, str]:
    """The batch whose runs a check shares, by the name of the check: combinations and lives."""
    lives = {each: life for each in names if (life := life_of(each))}
    combinations = [each for each in names if each.startswith(_COMBINATIONS)]
    if not combinations:
        return lives
    plan = ascend_session_of(config).plan
    batch_of_cell = {
        cell.id: f"batch {number}"
        for number, batch in enumerate(batches(plan.cells))
        for cell in batch
    }
    cells = {each: each.partition("[")[2].removesuffix("]") for each in combinations}
    return lives | {
        each: batch_of_cell[cell] for each, cell in cells.items() if cell in batch_of_cell
    }


def estimate(session: AscendSession, checks: Iterable[str], workers: int) -> str:
    """The line before the first check of a toolchain that compiles operators; empty for the
    reference, whose runs are short, and where nothing can be measured."""
    toolchain = session.toolchain
    needed = {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT}
    if session.settings.toolchain == "reference" or not needed <= toolchain.capabilities:
        return ""
    runs = estimated_starts(checks, toolchain.capabilities)
    if not runs or not session.control.compiles:
        return ""
    seconds = session.control.seconds
    how_many = f" with {workers} workers" if workers > 1 else ""
    return (
        f"about {runs} runs of {toolchain.name} (an estimate), {seconds:.2g} s each as measured: "
        f"about {duration(runs * seconds / min(workers, os.cpu_count() or 1))}{how_many}"
    )


def estimated_starts(checks: Iterable[str], capabilities: frozenset[Capability]) -> int:
    """Runs that checks (node ids) need of a toolchain with these capabilities."""
    names = (each.removeprefix(SUITE_NODES) for each in checks if each.startswith(SUITE_NODES))
    return round(sum(shares(each for each in names if needs_of(each) <= capabilities).values()))


def duration(seconds: float) -> str:
    """A time in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
