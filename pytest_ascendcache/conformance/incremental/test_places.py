"""Document M: where a rank's directory leads. What works for one card works for several, too."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.incremental.fixtures import (
    NETWORK,
    Rehearse,
    ended_well,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.ranks import SHORTEST_WAIT
from pytest_ascendcache.observation import NetworkUnderTest, meeting_place

_LINKS = {"rank_N": 1, "kernel_meta": 0}
"""How far above its kernels a link is that a rank's directory stands behind."""


def _link(network: NetworkUnderTest, rank: int, levels: int) -> None:
    """Put a link to an empty directory on another disk where a rank keeps its kernels."""
    place = [network.place(rank), *network.place(rank).parents][levels]
    scratch = network.new_directory() / "scratch"
    for made in (scratch, place.parent):
        made.mkdir(parents=True, exist_ok=True)
    place.symlink_to(scratch)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("link", _LINKS)
def test_a_rank_behind_a_link_meets_the_others(
    network: NetworkUnderTest, rehearse: Rehearse, link: str, rank: int
) -> None:
    """Whether kernels are kept there is open; a toolchain may refuse it for one card, too."""
    cache, network.cache = network.cache, network.site / "one-card"
    _link(network, 0, _LINKS[link])
    if not network.attempt(network.request(NETWORK, 0)).succeeded:
        pytest.skip("one card is refused where its directory is a link")
    network.cache = cache

    def story(second: float) -> None:
        _link(network, rank, _LINKS[link])
        with meeting_place(2, SHORTEST_WAIT) as gang:
            requests = (network.request(NETWORK, each, gang, second=second) for each in range(2))
            ended_well(*network.together(*requests))

    rehearse(story)
