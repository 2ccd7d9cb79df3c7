"""How long ranks are set against each other, and by which seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.plugin.options.values import Values

DEFAULT_STRESS_STEPS = 120
"""Steps of a stress run whose length is not given."""

DEFAULT_OPERATORS = 8
"""Operators of a stress run where no number is given."""

_ASKS = ("--ascend-stress", "--ascend-stress-steps", "--ascend-stress-replay")


@dataclass(frozen=True)
class StressSettings:
    """``seconds`` or ``steps``, whatever is reached first, by ``seed``.

    ``history`` is where every step is written, ``replay`` a history to be carried out again.
    """

    asked: bool = False
    seconds: float | None = None
    steps: int | None = None
    seed: int = 1
    history: Path | None = None
    replay: Path | None = None
    operators: int = DEFAULT_OPERATORS


def draw_seed(config: pytest.Config) -> None:
    """Draw the seed of a new stress run, where none is given.

    It is kept as if it had been typed: workers of xdist and repeat lines have the same one.
    """
    option = config.option
    given = option.ascend_stress is not None or option.ascend_stress_steps is not None
    if given and option.ascend_stress_seed is None:
        option.ascend_stress_seed = str(secrets.randbelow(2**32))


def read_stress(values: Values) -> StressSettings:
    """Check the options of stress runs together.

    Raises:
        pytest.UsageError: where they contradict each other, or the history cannot be read.
    """
    wanted = [each for each in _ASKS if values.given(each)]
    rules = values["--ascend-rule"]
    if wanted and rules and STRESS_RULE not in rules:
        raise pytest.UsageError(
            f"{values.shown(wanted[0])} runs nothing where other rules are selected; add "
            f"--ascend-rule={STRESS_RULE}, or leave one of the two out."
        )
    asked = bool(wanted) or STRESS_RULE in rules
    replay = values["--ascend-stress-replay"]
    if replay is not None:
        for other in (*_ASKS[:2], "--ascend-stress-seed", "--ascend-stress-operators"):
            if values.given(other):
                raise pytest.UsageError(
                    f"--ascend-stress-replay={replay} already says what is done; leave out "
                    f"{values.shown(other)}."
                )
        _check_history(replay, values)
    for lonely in (
        "--ascend-stress-history",
        "--ascend-stress-seed",
        "--ascend-stress-operators",
    ):
        if values.given(lonely) and not asked:
            raise pytest.UsageError(
                f"{values.shown(lonely)} is about a stress run; add --ascend-stress=TIME."
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
    given = values["--ascend-nodes"] or 1
    if header.nodes != given and not values.given("--ascend-node"):
        asked = f"add --ascend-nodes={header.nodes}" if header.nodes > 1 else "leave it out"
        raise pytest.UsageError(
            f"--ascend-stress-replay={path} is of {header.nodes} nodes, and --ascend-nodes says "
            f"{given}; {asked}."
        )
