"""Stress on nodes that share a directory. Collected only if nodes are requested too."""

from __future__ import annotations

from pytest_ascendcache.conformance.kit.vocabulary import profiles, rule
from pytest_ascendcache.conformance.stress.test_stress import judge
from pytest_ascendcache.nodes import NodeProfile, NotShown
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.stress import Campaign


@rule("robust/stress")
@profiles(NodeProfile.NFS_NOLOCK, NodeProfile.NFS_DEFAULT, NodeProfile.STALE_HANDLES)
def test_ranks_on_nodes_at_random(cache: CacheUnderTest, ascend_stress_on_nodes: Campaign) -> None:
    nodes = ascend_stress_on_nodes.nodes
    assert nodes is not None
    try:
        try:
            judge(cache, ascend_stress_on_nodes)
        finally:
            # A failure proves nothing if a mount is gone, which this reports.
            nodes.directory()
    except NotShown as reason:
        raise NotDecidable(str(reason)) from None
