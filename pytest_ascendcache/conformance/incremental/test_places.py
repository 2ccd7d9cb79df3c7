"""Document M: where a rank's directory leads. What works for one card works for several, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_ascendcache.conformance.incremental.fixtures import (
    NETWORK,
    Rehearse,
    ended_well,
)
from pytest_ascendcache.conformance.kit.states import another_disk
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import COMPILED, REUSED, needs, rule
from pytest_ascendcache.contract.facts import (
    Ending,
    Fact,
    Later,
    Subject,
    SubjectKind,
    outcome_fact,
)
from pytest_ascendcache.contract.ranks import SHORTEST_WAIT
from pytest_ascendcache.faults import Action, FaultPlan
from pytest_ascendcache.observation import (
    Interruption,
    NetworkRun,
    NetworkUnderTest,
    meeting_place,
)
from pytest_ascendcache.toolchains import Toolchain

_LINKS = {"rank_N": 1, "kernel_meta": 0}
"""How far above its kernels a link is that a rank's directory stands behind."""

_ALONE = Fact.seen(Ending.FAILURE, "", subject=Subject(SubjectKind.EVENT, "linked directory"))


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
    run = network.attempt(network.request(NETWORK, 0))
    if (run.result.returncode or 0) > 0:
        pytest.skip("one card is refused where its directory is a link")
    ended_well(run)
    network.cache = cache

    def story(second: float) -> None:
        _link(network, rank, _LINKS[link])
        with meeting_place(2, SHORTEST_WAIT) as gang:
            requests = (network.request(NETWORK, each, gang, second=second) for each in range(2))
            runs = network.together(*requests)
        alone = [run for run in runs if not run.succeeded]
        assert not alone, network.evidence.found(_ALONE, f"a rank {alone[0].result.ending}")
        ended_well(*runs)

    rehearse(story)


@rule("robust/read-only-cache")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_on_a_read_only_file_system_meets_the_others(
    network: NetworkUnderTest, toolchain: Toolchain, rehearse: Rehearse, rank: int
) -> None:
    """Its kernels are there, as an image has them. The other rank is another host's."""
    needs(toolchain, Action.EROFS)

    def story(second: float) -> None:
        elsewhere = {"MS_COMPILER_CACHE_PATH": str(network.new_directory() / "cache")}
        others: list[NetworkRun] = []

        def start(plan: FaultPlan | None = None) -> NetworkRun:
            with meeting_place(2, SHORTEST_WAIT) as gang:
                own, other = (
                    network.request(NETWORK, each, gang, environment, second=second)
                    for each, environment in ((rank, {}), (1 - rank, elsewhere))
                )
                run, *others[:] = network.together(replace(own, plan=plan), other)
            return run

        ended_well(start(), *others)
        logs, route = network.new_directory() / "record", toolchain.fault_route()
        running = Interruption(network.cache, logs, route, start)
        ended_well(running.strike(Action.EROFS, running.operations[0]), *others)

    rehearse(story)


@rule("incremental/reuses")
def test_kernels_are_kept_where_temporary_files_are_on_another_disk(
    network: NetworkUnderTest,
) -> None:
    with another_disk(network.sandbox) as disk:
        elsewhere = {"TMPDIR": str(disk)}
        ended_well(network.run(NETWORK, environment=elsewhere))
        assert network.kernels(), network.evidence.found(
            Later.STORES_NOTHING, "no kernel is kept: temporary files are on another disk"
        )
        network.mark()
        run = network.run(NETWORK, environment=elsewhere)
    again = [
        outcome_fact(COMPILED, [REUSED], each, detail=f"{each} is compiled again")
        for each in sorted(run.compiled)
    ]
    require_none(again, network.evidence)
