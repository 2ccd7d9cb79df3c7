"""Options of stress runs: how long they last, and their seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.plugin.options.values import Values

DEFAULT_STRESS_STEPS = 120
"""Steps of a stress run where neither steps nor seconds are given."""

DEFAULT_OPERATORS = 8
"""Operators of a stress run where no option gives a number."""

_ASKS = ("--ascend-stress", "--ascend-stress-steps", "--ascend-stress-replay")


@dataclass(frozen=True)
class StressSettings:
    """A stress run, if one is ``asked`` for. It ends after ``seconds`` or ``steps``, whichever
    comes first. ``history`` is the file it writes, ``replay`` a history whose steps it repeats."""

    asked: bool = False
    seconds: float | None = None
    steps: int | None = None
    seed: int = 1
    history: Path | None = None
    replay: Path | None = None
    operators: int = DEFAULT_OPERATORS


def draw_seed(config: pytest.Config) -> None:
    """Draw the seed of a new stress run, where none is given.

    It is stored as if it had been typed, so that xdist workers and repeat commands use the same.
    """
    option = config.option
    is_new = option.ascend_stress is not None or option.ascend_stress_steps is not None
    if is_new and option.ascend_stress_seed is None:
        option.ascend_stress_seed = str(secrets.randbelow(2**32))


def read_stress(values: Values) -> StressSettings:
    """Check the options of stress runs together.

    Raises ``pytest.UsageError`` if they contradict each other, or the history cannot be read.
    """
    asking = [each for each in _ASKS if values.given(each)]
    rules = values["--ascend-rule"]
    if asking and rules and STRESS_RULE not in rules:
        raise pytest.UsageError(
            f"{values.shown(asking[0])} runs nothing where other rules are selected; add "
            f"--ascend-rule={STRESS_RULE}, or leave one of the two out."
        )
    asked = bool(asking) or STRESS_RULE in rules
    replay = values["--ascend-stress-replay"]
    if replay is not None:
        for other in (*_ASKS[:2], "--ascend-stress-seed", "--ascend-stress-operators"):
            if values.given(other):
                raise pytest.UsageError(
                    f"--ascend-stress-replay={replay} already fixes the steps; leave out "
                    f"{values.shown(other)}."
                )
        _check_history(replay, values)
    for detail in ("--ascend-stress-history", "--ascend-stress-seed", "--ascend-stress-operators"):
        if values.given(detail) and not asked:
            raise pytest.UsageError(
                f"{values.shown(detail)} is about a stress run; add --ascend-stress=TIME."
            )
    seed = values["--ascend-stress-seed"]
    return StressSettings(
        asked=asked,
        seconds=values["--ascend-stress"],
        steps=values["--ascend-stress-steps"],
        seed=1 if seed is None else seed,
        history=values["--ascend-stress-history"],
        replay=replay,
        operators=values["--ascend-stress-operators"] or DEFAULT_OPERATORS,
    )


def _check_history(path: Path, values: Values) -> None:
    from pytest_ascendcache.stress import HistoryError, read_history

    try:
        header = read_history(path).header
    except HistoryError as error:
        raise pytest.UsageError(f"--ascend-stress-replay: {error}") from None
    nodes = values["--ascend-nodes"] or 1
    if header.nodes != nodes and not values.given("--ascend-node"):
        remedy = f"add --ascend-nodes={header.nodes}" if header.nodes > 1 else "leave it out"
        raise pytest.UsageError(
            f"--ascend-stress-replay={path} was recorded on {header.nodes} nodes, and "
            f"--ascend-nodes says {nodes}; {remedy}."
        )
