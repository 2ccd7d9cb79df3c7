"""Several ranks of a MindSpore network, started by its own launcher, with a real ``AllReduce``."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import (
    GANG_HANGS,
    all_right,
    is_graph,
    usual,
)
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import NetworkRun, NetworkUnderTest, launched_gang

SIZE = 2


@pytest.fixture(autouse=True)
def _launcher(network: NetworkUnderTest) -> None:
    needs(network.toolchain, Capability.GANG_LAUNCHER)


def run_gang(network: NetworkUnderTest) -> list[NetworkRun]:
    """Run a gang of two, which must end well and compute the right sum."""
    with launched_gang(network, usual(network), SIZE) as gang:
        runs = gang.wait(GANG_HANGS)
        assert runs[0].returncode is not None, f"the gang has not ended after {GANG_HANGS:g} s"
        all_right(gang, runs)
    return runs


@rule("ranks/isolated")
def test_each_rank_writes_below_its_own_directory(network: NetworkUnderTest) -> None:
    runs = run_gang(network)
    kept = [path for path in runs[0].files_written if network.layout.unit.holds(Path(path))]
    assert kept, "nothing is kept"
    own = tuple(f"/rank_{rank}/" for rank in range(SIZE))
    elsewhere = [path for path in kept if not any(each in path for each in own)]
    assert not elsewhere, f"not below the directory of a rank: {elsewhere[0]}"
    assert all(any(each in path for path in kept) for each in own), "a rank kept nothing"


@rule("incremental/reuses")
def test_a_gang_compiles_nothing_again(network: NetworkUnderTest) -> None:
    run_gang(network)
    for rank in range(SIZE if is_graph(network) else 1):
        network.mark(rank)
    for rank, run in enumerate(run_gang(network)):
        assert run.compiled == frozenset(), f"rank {rank} compiled again"


@rule("ranks/scenarios-separate")
def test_a_gang_is_right_after_one_card(network: NetworkUnderTest) -> None:
    """A right kernel of one card that is reused is no harm."""
    network.warm(usual(network))
    run_gang(network)
