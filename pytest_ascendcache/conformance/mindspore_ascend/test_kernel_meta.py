"""What decides whether ``kernel_meta`` is used, and what then runs. Each kernel tells what it was
built for, and the stand-in runtime records what it executes. Source: facts ``mindspore-ascend``
sections A, C and E."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_ascendcache.conformance.incremental.test_incremental import NETWORK, square_network
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.contract.ranks import kernel_meta
from pytest_ascendcache.faults import DAMAGES, Damage
from pytest_ascendcache.observation import (
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    probe_network,
)
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import Script

SQUARE = probe_network("Square")
CHANGES = ("chip", "compiler", "model-bank", "operator-bank", "level-1", "level-2")


def right(network: NetworkUnderTest, wanted: Network, which: str, **request: Any) -> NetworkRun:
    """Make one run, and assert that it ends well with the right outputs."""
    run = network.attempt(network.request(wanted, **request))
    assert run.succeeded, f"{which} {run.result.ending}: {last_words(run)}"
    assert run.wrong == {}, f"{which} gives wrong outputs"
    return run


def last_words(run: NetworkRun) -> str:
    """The last error of a run's output."""
    lines = [line for line in run.output.splitlines() if "Error" in line or "CRITICAL" in line]
    return (lines or run.output.strip().splitlines() or ["nothing was printed"])[-1][-200:]


def what_ran(network: NetworkUnderTest, run: NetworkRun) -> list[Any]:
    """The kernels that a run executed, with what they are for. Raises ``NotDecidable`` if none."""
    executed: list[Any] = cast(Any, network.toolchain).ran(run.result.request)
    if not executed:
        raise NotDecidable("no kernel was executed")
    return executed


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("change", CHANGES)
def test_no_kernel_runs_that_was_made_for_something_else(
    network: NetworkUnderTest, change: str
) -> None:
    """On an empty cache the change reaches the compiler. Then the same change on a filled one."""
    setting = cast(Any, network.toolchain).settings[change]
    filled, network.cache = network.cache, network.site / "cold"
    run = right(network, SQUARE, "the run on an empty cache", environment=setting.environment)
    if any(each.identity[setting.field] != setting.told for each in what_ran(network, run)):
        raise NotDecidable(f"{setting.name} does not reach the compiler")
    network.cache = filled
    right(network, SQUARE, "the first run")
    run = right(network, SQUARE, "the run after the change", environment=setting.environment)
    told = [each.identity[setting.field] for each in what_ran(network, run)]
    assert told == [setting.told], network.evidence.found(
        Delivery.STALE, f"{setting.name}={setting.value}: a kernel made without it ran"
    )


@rule("robust/upgrade-stamp")
def test_no_kernel_of_another_release_runs(network: NetworkUnderTest) -> None:
    judged = network.toolchain
    other = cast(Any, judged).other_release
    if other is None:
        pytest.skip(
            f"{judged.name}: no other release is at hand; -o ascend_mindspore_other=PYTHON names it"
        )
    network.toolchain = other
    try:
        right(network, NETWORK, f"the run of {other.version}")
        network.mark()
    finally:
        network.toolchain = judged
    run = right(network, NETWORK, f"the run after one of {other.version}")
    assert run.reused == frozenset(), network.evidence.found(
        Delivery.STALE, f"what {other.version} compiled is run by {judged.version}"
    )


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.name)
def test_each_damage_heals(network: NetworkUnderTest, damage: Damage) -> None:
    network.warm(SQUARE)
    (kernel,) = network.kernels().values()
    damage.apply(kernel)
    right(network, SQUARE, "the next run")
    (kernel,) = network.kernels().values()
    assert kernel.problems() == [], "the damaged kernel is still there"
    network.mark()
    assert right(network, SQUARE, "the run after that").compiled == frozenset()


PATHS = {
    "with-a-blank": "a b",
    "with-letters": "缓存",
    "with-a-slash-at-its-end": "here/",
    "with-dots": "here/../there",
    "of-many-levels": "/".join("abcdefgh"),
    "relative": "./below",
    "with-a-quote": "it's",
}


@rule("ranks/directory")
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_cache_path_is_taken_as_it_is_written(network: NetworkUnderTest, path: str) -> None:
    """Or it is refused by its name."""
    (network.work / "here").mkdir()
    environment = {"MS_COMPILER_CACHE_PATH": path}
    run = network.attempt(network.request(SQUARE, environment=environment))
    own = Path(kernel_meta(environment, network.work))
    if not run.succeeded:
        assert path in run.output, f"it is refused without its name: {last_words(run)}"
        assert run.kernels_written == frozenset(), "kernels were written all the same"
        return
    kernels = network.layout.unit.read_all(own)
    assert len(kernels) == 1, f"{own} holds {len(kernels)} kernels"
    again = right(network, SQUARE, "the next run", environment=environment)
    assert again.kernels_written == frozenset(), "the next run does not find them"


@rule("incremental/info-describes")
def test_info_says_what_the_network_does(network: NetworkUnderTest) -> None:
    """Name, types and shapes are the network's, formats MindSpore's own choice."""
    probe = Probe("LeakyRelu", attributes=(("negative_slope", "float", 0.25),), dtype="float16")
    network.run(probe_network(probe))
    (kernel,) = network.kernels().values()
    described = list(_tensors(kernel.info))
    assert described, ".info describes no tensor"
    for tensor in described:
        assert tensor["format"], f"no format: {tensor}"
        assert tensor["data_type"] == "float16"
        assert tensor["ori_shape"] == list(probe.shape)
    (operator,) = (each for each in kernel.info["job_content"]["op_list"] if each["type"] != "Data")
    assert operator["type"] == "LeakyRelu"
    attributes = [each["name"] for each in operator["attrs"]]
    assert "negative_slope" in attributes, f"attributes are {attributes}"
    assert 0.25 in [each.get("value") for each in operator["attrs"]]


def _tensors(value: Any) -> Iterator[Any]:
    """The descriptions of tensors in a JSON value."""
    if isinstance(value, dict):
        if "data_type" in value:
            yield value
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list):
        for each in value:
            yield from _tensors(each)


@rule("incremental/reuses")
@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_a_process_of_its_own_finds_what_a_forked_one_left(
    network: NetworkUnderTest, mode: str
) -> None:
    """Runs that this suite forks share the cache with separate processes, both ways."""
    for first in (True, False):
        network.cache = network.site / f"cache-{first}"
        for fresh in (first, not first):
            script = Script(fresh=fresh, jit_level=mode)
            run = right(network, NETWORK, "the run", script=script)
        made = cast(Any, network.toolchain).compiles_of(run.result.request)
        assert made == [], "the second process compiles again"


@rule("incremental/result-correct")
def test_the_documents_network_is_right_in_a_process_of_its_own(network: NetworkUnderTest) -> None:
    for which in ("the first run", "the second run"):
        run = right(network, square_network(), which, script=Script(fresh=True))
        assert run.result.outputs is not None
        assert run.result.outputs["output"].tolist() == [1.0, 16.0, 81.0]
