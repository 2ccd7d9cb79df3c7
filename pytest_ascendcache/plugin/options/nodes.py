"""Options of nodes: how many share the cache under test, and where real nodes mount it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

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
    """Check the options of nodes together.

    Raises ``pytest.UsageError`` if they contradict each other, or too few directories are given.
    """
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
