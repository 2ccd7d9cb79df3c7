"""Kernels of ranks in a directory that nodes share: a rank runs on one node, then on another.

Document M has a rank's kernels in ``rank_<RANK_ID>/kernel_meta`` below ``MS_COMPILER_CACHE_PATH``,
which clusters keep on shared storage. A scheduler may start the rank on another node next time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.caches import KERNEL_META, Snapshot
from pytest_ascendcache.conformance.incremental.test_incremental import NETWORK, OPERATORS
from pytest_ascendcache.conformance.kit.mindspore_stories import probes_of, usual
from pytest_ascendcache.conformance.kit.vocabulary import needs, profiles, rule
from pytest_ascendcache.conformance.shared.fixtures import Mounts, Views, play
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import FaultPlan
from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import (
    Interruption,
    NetworkRun,
    NetworkUnderTest,
    probe_network,
    spread,
)
from pytest_ascendcache.observation.shared_cache import MOST
from pytest_ascendcache.operators.network import Network


def _whole(network: NetworkUnderTest) -> Network:
    """The network to run. MindSpore's caches need another one, which can be marked there."""
    return NETWORK if network.layout is KERNEL_META else usual(network)


def _part(network: NetworkUnderTest) -> Network:
    """A network with one of its operators."""
    return probe_network(OPERATORS[0] if network.layout is KERNEL_META else probes_of(network)[0])


def _run(network: NetworkUnderTest, view: Path, what: Network | None = None) -> NetworkRun:
    """Run rank 0 on the node with this view of the shared directory. It may fail."""
    settings = {"MS_COMPILER_CACHE_PATH": str(view / "cache")}
    return network.attempt(network.request(what or _whole(network), 0, environment=settings))


def _check(run: NetworkRun, where: str) -> None:
    assert run.succeeded, f"{where}: the rank {run.result.ending}"
    assert run.wrong == {}, f"{where}: the outputs are wrong"


def _rewritten(network: NetworkUnderTest, views: Views, where: str) -> str:
    """A kernel's file that each of two runs on the other node writes, or empty if there is none: a
    toolchain may store in the second run that misses."""
    written = set[str]()
    for _ in range(2):
        before = Snapshot.take(views.backing)
        _check(_run(network, views.other), where)
        changes = before.disturbed(Snapshot.take(views.backing))
        written = {path for path in changes if network.layout.unit.holds(Path(path))}
        if not written:
            break
    return min(written, default="")


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_a_rank_moves_to_a_node_that_looked_too_early(
    network: NetworkUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    network.needs_reuse()
    network.run(_whole(network), 0)  # elsewhere, to learn the names that a run makes
    names = [path.relative_to(network.cache) for path in sorted(network.cache.rglob("*"))]

    def story(views: Views) -> None:
        first, late = views.first, views.other
        (views.backing / "cache").mkdir()
        if directory == "used":
            _check(_run(network, first, _part(network)), "on the first node")
        early = [each for each in names if not (late / "cache" / each).exists()]
        _check(_run(network, first), "on the first node")
        below = [Path("cache") / each for each in early]
        views.check_early(below, "the first compile made none of the names that were looked up")
        _check(_run(network, late), "on a node that looked for its files before they were made")
        views.nodes.later()
        _check(_run(network, late), "once the names are seen")
        written = _rewritten(network, views, "in a run after that")
        assert not written, f"every later run writes {written} again"

    play(network.evidence, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_a_rank_takes_turns_on_nodes_without_each_others_locks(
    network: NetworkUnderTest, ascend_mounts: Mounts
) -> None:
    def story(views: Views) -> None:
        (views.backing / "cache").mkdir()
        for number in range(3):
            where = f"run {number + 1} of the rank, each on another node"
            _check(_run(network, views.on(number)), where)

    play(network.evidence, ascend_mounts, story)


def _recorded(network: NetworkUnderTest, view: Path) -> Interruption[NetworkRun]:
    """A recorded run of rank 0 on the node with this view."""
    settings = {"MS_COMPILER_CACHE_PATH": str(view / "cache")}

    def start(plan: FaultPlan) -> NetworkRun:
        request = network.request(_whole(network), 0, environment=settings)
        return network.attempt(replace(request, plan=plan))

    route, logs = network.toolchain.fault_route(), network.new_directory() / "record"
    return Interruption(view / "cache", logs, route, start)


@rule("shared/no-failure")
@profiles(NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
def test_two_nodes_run_one_rank_at_once(network: NetworkUnderTest, ascend_mounts: Mounts) -> None:
    """A scheduler that considers a node lost starts its rank elsewhere while it still runs."""
    needs(network.toolchain, Capability.FAULT_POINTS)
    network.needs_reuse()

    def story(views: Views) -> None:
        (views.backing / "cache").mkdir()
        first = _recorded(network, views.first)
        for at in first.worthwhile(spread(views.holdable_names(first), MOST)):
            views.forget("cache")
            where = f"one node runs a rank and stands before {at}, another runs it too"
            with first.held(at) as one:
                done = _run(network, views.other)
                one.release()
                _check(one.result(), f"{where}; the first")
            _check(done, f"{where}; the second")
            views.nodes.later()
            _check(_run(network, views.other), f"{where}; the next run")
            written = _rewritten(network, views, f"{where}; the run after that")
            assert not written, f"{where}; every later run writes {written} again"

    play(network.evidence, ascend_mounts, story)
