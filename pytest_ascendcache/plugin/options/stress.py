"""Options of stress runs: how long they last, and their seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.plugin.options.nodes import NodeSettings
from pytest_ascendcache.plugin.options.option import StressLength
from pytest_ascendcache.plugin.options.table import SETTINGS_OF_INI
from pytest_ascendcache.plugin.options.values import Values

DEFAULT_STRESS_STEPS = 120
"""Steps of a stress run where neither steps nor seconds are given."""

DEFAULT_OPERATORS: int = SETTINGS_OF_INI["ascend_stress_operators"].default


@dataclass(frozen=True)
class StressSettings:
    """A stress run, if one is ``asked`` for. It ends after ``seconds`` or ``steps``. ``history`` is
    the file it writes, ``replay`` a history whose steps it repeats."""

    asked: bool = False
    seconds: float | None = None
    steps: int | None = None
    seed: int = 1
    history: Path | None = None
    replay: Path | None = None
    operators: int = DEFAULT_OPERATORS


def read_stress(values: Values, nodes: NodeSettings) -> StressSettings:
    """Check the options of stress runs together. Where none is given, a new run draws its seed.

    Raises ``pytest.UsageError`` if they contradict each other, or the history cannot be read.
    """
    amount: StressLength | Path | None = values["--ascend-stress"]
    rules = values["--ascend-rule"]
    if amount is not None and rules and STRESS_RULE not in rules:
        raise pytest.UsageError(
            f"{values.shown('--ascend-stress')} runs nothing where other rules are selected; add "
            f"--ascend-rule={STRESS_RULE}, or leave one of the two out."
        )
    replay = amount if isinstance(amount, Path) else None
    length = amount if isinstance(amount, StressLength) else StressLength()
    if replay is not None:
        if values.given("--ascend-seed"):
            raise pytest.UsageError(
                f"--ascend-stress={replay} already fixes the steps; leave out "
                f"{values.shown('--ascend-seed')}."
            )
        _check_history(replay, nodes)
    elif amount is not None and not values.given("--ascend-seed"):
        values.give("--ascend-seed", str(secrets.randbelow(2**32)))
    return StressSettings(
        asked=amount is not None or STRESS_RULE in rules,
        seconds=length.seconds,
        steps=length.steps,
        seed=values["--ascend-seed"] if values.given("--ascend-seed") else 1,
        history=values["ascend_stress_history"],
        replay=replay,
        operators=values["ascend_stress_operators"],
    )


def _check_history(path: Path, nodes: NodeSettings) -> None:
    from pytest_ascendcache.stress import HistoryError, read_history

    try:
        header = read_history(path).header
    except HistoryError as error:
        raise pytest.UsageError(f"--ascend-stress: {error}") from None
    number = nodes.number or 1
    if header.nodes != number and not nodes.directories:
        remedy = f"add --ascend-nodes={header.nodes}" if header.nodes > 1 else "leave it out"
        raise pytest.UsageError(
            f"--ascend-stress={path} was recorded on {header.nodes} nodes, and "
            f"--ascend-nodes says {number}; {remedy}."
        )
