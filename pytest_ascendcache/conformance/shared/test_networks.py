"""Kernels of ranks in a directory that nodes share: a rank runs on one node, then on another.

Document M has a rank's kernels in ``rank_<RANK_ID>/kernel_meta`` below ``MS_COMPILER_CACHE_PATH``,
which clusters keep on shared storage. A scheduler is free to start the rank elsewhere next time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.caches import KERNEL_META
from pytest_ascendcache.conformance.incremental.test_incremental import NETWORK, OPERATORS
from pytest_ascendcache.conformance.kit.mindspore_stories import probes_of, usual
from pytest_ascendcache.conformance.kit.nodes import profiles
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import Act, FaultPlan
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import (
    Interruption,
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    probe_network,
    spread,
)
from pytest_ascendcache.observation.shared_cache import MOST, blame_nodes, remove_shared
from pytest_ascendcache.operators.network import Network

Mounts = tuple[Nodes, Nodes]


def _whole(network: NetworkUnderTest) -> Network:
    """The network that is run; MindSpore's caches have their own, which can be marked there."""
    return NETWORK if network.layout is KERNEL_META else usual(network)


def _part(network: NetworkUnderTest) -> Network:
    """A network with one of its operators."""
    return probe_network(OPERATORS[0] if network.layout is KERNEL_META else probes_of(network)[0])


def _run(network: NetworkUnderTest, view: Path, what: Network | None = None) -> NetworkRun:
    """Rank 0 on the node with this view of the shared directory; failing is an answer too."""
    settings = {"MS_COMPILER_CACHE_PATH": str(view / "cache")}
    return network.attempt(network.request(what or _whole(network), 0, environment=settings))


def _check(run: NetworkRun, where: str) -> None:
    assert run.succeeded, f"{where}: the rank {run.result.ending}"
    assert run.wrong == {}, f"{where}: the outputs are wrong"


def _told(network: NetworkUnderTest, mounts: Mounts, story: Callable[[Nodes, bool], None]) -> None:
    nodes, plain = mounts
    blame_nodes(
        network.evidence,
        nodes.profile,
        lambda: story(nodes, False),
        lambda: story(plain, True),
    )


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    """Regular files but for locks, with what changes when one is written."""
    states = {path: path.stat() for path in directory.rglob("*") if path.is_file()}
    return {
        str(path.relative_to(directory)): (state.st_ino, state.st_mtime_ns)
        for path, state in states.items()
        if not path.name.endswith(".lock")
    }


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_a_rank_moves_to_a_node_that_looked_too_early(
    network: NetworkUnderTest, ascend_mounts: Mounts, directory: str
) -> None:
    network.needs_reuse()
    network.run(_whole(network), 0)  # what a run makes, found out elsewhere
    names = [path.relative_to(network.cache) for path in sorted(network.cache.rglob("*"))]

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        first, late = views[0], views[0 if one_view else -1]
        (backing / "cache").mkdir()
        if directory == "used":
            _check(_run(network, first, _part(network)), "on the first node")
        early = [each for each in names if not (late / "cache" / each).exists()]
        _check(_run(network, first), "on the first node")
        there = [each for each in early if (backing / "cache" / each).exists()]
        if not there:
            raise NotDecidable("the first compile made none of the names that were looked up")
        seen = any((late / "cache" / each).exists() for each in there)
        if nodes.profile.early_names_stay and not one_view and seen:
            raise NotDecidable("names that were looked up too early are seen at once")
        _check(_run(network, late), "on a node that looked for its files before they were made")
        nodes.later()
        _check(_run(network, late), "once the names are seen")
        before = _files(backing)
        _check(_run(network, late), "in a run after that")
        written = sorted(set(_files(backing).items()) ^ set(before.items()))
        assert not written, f"every later run writes {written[0][0]} again"

    _told(network, ascend_mounts, story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_a_rank_takes_turns_on_nodes_without_each_others_locks(
    network: NetworkUnderTest, ascend_mounts: Mounts
) -> None:
    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        (backing / "cache").mkdir()
        for number in range(3):
            view = views[0 if one_view else number % len(views)]
            _check(_run(network, view), f"run {number + 1} of the rank, each on another node")

    _told(network, ascend_mounts, story)


def _recorded(network: NetworkUnderTest, view: Path) -> Interruption[NetworkRun]:
    """A run of rank 0 on the node with this view, recorded, that can be held."""
    settings = {"MS_COMPILER_CACHE_PATH": str(view / "cache")}

    def start(plan: FaultPlan) -> NetworkRun:
        request = network.request(_whole(network), 0, environment=settings)
        return network.attempt(replace(request, plan=plan))

    route, logs = network.toolchain.fault_route(), network.new_directory() / "record"
    return Interruption(view / "cache", logs, route, start)


def _forget(backing: Path, views: tuple[Path, ...]) -> None:
    """An empty directory, of which no node remembers a name: each has removed it itself."""
    remove_shared(backing / "cache")
    for view in views:
        (backing / "cache").mkdir()
        (view / "cache").rmdir()
    (backing / "cache").mkdir()


@rule("shared/no-failure")
@profiles(NodeProfile.NFS_NOLOCK, NodeProfile.STALE_HANDLES)
def test_two_nodes_run_one_rank_at_once(network: NetworkUnderTest, ascend_mounts: Mounts) -> None:
    """A scheduler that takes a node for lost starts its rank elsewhere while it still runs."""
    if Capability.FAULT_POINTS not in network.toolchain.capabilities:
        pytest.skip(f"{network.toolchain.name}: {Capability.FAULT_POINTS.lacking}")
    network.needs_reuse()

    def story(nodes: Nodes, one_view: bool) -> None:
        backing, views = nodes.directory()
        other = views[0 if one_view else -1]
        (backing / "cache").mkdir()
        first = _recorded(network, views[0])
        naming = [each for each in first.holdable if each.act.names]
        locks = [each.number for each in naming if each.act is Act.LOCK]
        if one_view:  # there the other would wait for a lock that is held
            naming = [each for each in naming if not locks or each.number <= locks[0]]
        if not naming:
            raise NotDecidable("no name operation was seen at which it could be held")
        for at in first.worthwhile(spread(naming, MOST)):
            _forget(backing, views)
            where = f"one node runs a rank and stands before {at}, another runs it too"
            with first.held(at) as one:
                done = _run(network, other)
                one.release()
                _check(one.result(), f"{where}; the first")
            _check(done, f"{where}; the second")
            nodes.later()
            _check(_run(network, other), f"{where}; the next run")
            before = _files(backing)
            _check(_run(network, other), f"{where}; the run after that")
            written = sorted(set(_files(backing).items()) ^ set(before.items()))
            assert not written, f"{where}; every later run writes {written[0][0]} again"

    _told(network, ascend_mounts, story)
