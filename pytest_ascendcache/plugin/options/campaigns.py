"""Options of nodes that share a cache, and of stress runs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.plugin.options.option import StressLength
from pytest_ascendcache.plugin.options.table import SETTINGS_OF_INI
from pytest_ascendcache.plugin.options.values import Values

SHARED_RULES = "shared/"
"""Prefix of the ids of the rules about several nodes."""

FEWEST = 2


@dataclass(frozen=True)
class NodeSettings:
    """``number`` of nodes, 0 where no check needs them. ``directories`` are real mounts of one
    directory, one for each node; without them the run makes mounts on this machine."""

    number: int = 0
    directories: tuple[Path, ...] = ()


def read_nodes(values: Values) -> NodeSettings:
    """Check the options of nodes together. Raises ``pytest.UsageError`` for contradictions and too
    few directories."""
    given: tuple[int | Path, ...] = values["--ascend-nodes"]
    directories = tuple(each for each in given if isinstance(each, Path))
    numbers = [each for each in given if isinstance(each, int)]
    if len(numbers) + bool(directories) > 1:
        raise pytest.UsageError(
            f"--ascend-nodes={numbers[0]} makes nodes on this machine; leave out "
            f"--ascend-nodes={next(each for each in given[::-1] if each is not numbers[0])}."
        )
    if not directories:
        asked = any(each.startswith(SHARED_RULES) for each in values["--ascend-rule"])
        return NodeSettings(sum(numbers) or (FEWEST if asked else 0))
    for each in directories:
        if not each.is_dir():
            raise pytest.UsageError(
                f"--ascend-nodes={each} is not a directory; name where a node has the "
                "shared directory mounted, or give a number."
            )
    if len({str(each) for each in directories}) < FEWEST:
        raise pytest.UsageError(
            f"{values.shown('--ascend-nodes')}: one node alone shares nothing; give "
            "--ascend-nodes once for each mount of the directory."
        )
    return NodeSettings(len(directories), directories)


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
    """Check the options of stress runs together; without a seed a new run draws one. Raises
    ``pytest.UsageError`` for contradictions, and a history that cannot be read."""
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
