"""What the checks of several ranks share: how ranks are waited for, and what they say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_ascendcache.contract.ranks import SHORTEST_WAIT
from pytest_ascendcache.observation import NetworkRun, NetworkUnderTest, Watch, probe_network
from pytest_ascendcache.processes.waiting import wait_until as look_until
from pytest_ascendcache.toolchains import RankProcess

NETWORK = probe_network("Square", "Exp")
EVERYTHING = frozenset({"square", "exp"})
Story = Callable[[float], None]
"""A story in which a timeout passes, told how long a second of waiting lasts."""
HANGS = 20.0
"""True seconds, beside its timeout, after which a rank that has not ended will not end."""


def wait(
    watch: Watch, process: RankProcess, second: float, timeout: int = SHORTEST_WAIT
) -> NetworkRun:
    """How a rank ended that had a timeout of this length to end in, the shortest unless given."""
    run = watch.wait(process, HANGS + timeout * second)
    if run.result.returncode is None:
        rank = run.result.request.environment["RANK_ID"]
        pytest.fail(f"rank {rank} waits for ever: {run.output.strip()[-300:]}")
    return run


def ended_well(*runs: NetworkRun) -> None:
    """Every rank ended well, with the right outputs."""
    for run in runs:
        rank = run.result.request.environment.get("RANK_ID")
        assert run.succeeded, f"rank {rank} {run.result.ending}: {run.output.strip()[-300:]}"
        assert run.wrong == {}, f"rank {rank} gives wrong outputs"


def named(run: NetworkRun) -> set[int]:
    """The ranks an error names: numbers after the word rank, however they are written."""
    words = re.findall(r"ranks?[^\w\n]{0,3}((?:\d+[^\w\n]{0,3})+)", run.output, re.IGNORECASE)
    return {int(number) for each in words for number in re.findall(r"\d+", each)}


def ended_without(run: NetworkRun, missing: int) -> None:
    """A rank ended with an error that names the missing rank, and no other but itself."""
    own = int(run.result.request.environment["RANK_ID"])
    assert run.result.returncode, f"rank {own} {run.result.ending} without rank {missing}"
    assert run.result.returncode > 0, f"rank {own} {run.result.ending}"
    assert named(run) - {own} == {missing}, f"rank {missing} is missing: {run.output.strip()}"
    assert run.result.left_behind == 0, "a rank left processes behind"


def published(network: NetworkUnderTest, rank: int) -> list[str]:
    """Kernels of a rank that are whole."""
    return [stem for stem, kernel in network.kernels(rank).items() if kernel.is_valid]


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for something that is seen in files; a rank that does not come so far hangs."""
    if not look_until(happened, HANGS):
        pytest.fail(f"a rank has not published its kernels within {HANGS:g} s")
