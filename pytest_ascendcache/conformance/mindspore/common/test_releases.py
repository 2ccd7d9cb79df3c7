"""One release of MindSpore finds the cache of another: an upgrade or a downgrade."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import right, usual, waited
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable
from pytest_ascendcache.toolchains import Toolchain


@rule("robust/upgrade-stamp")
def test_what_another_release_cached_is_compiled_anew(network: NetworkUnderTest) -> None:
    judged = network.toolchain
    if Capability.VERSION_STAMP not in judged.capabilities:
        pytest.skip(
            f"{judged.name}: no other release is at hand; -o ascend_mindspore_other=PYTHON names it"
        )
    network.needs_reuse()
    other: Toolchain = cast(Any, judged).other_release
    wanted = usual(network)
    network.toolchain = other
    try:
        network.run(wanted)
        if not network.kernels():
            raise NotDecidable(f"{other.version} keeps nothing")
        network.mark()
    finally:
        network.toolchain = judged
    with network.watch() as watch:
        run = waited(watch, watch.start(network.request(wanted)))
    right(run, f"the run after one of {other.version}")
    assert run.reused == frozenset(), network.evidence.found(
        Delivery.STALE, f"what {other.version} compiled is run by {judged.version}"
    )
