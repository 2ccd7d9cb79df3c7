"""Runs of one network for different purposes, and odd or late settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import (
    HANGS,
    LEAKY,
    ONE,
    ended,
    is_graph,
    last_words,
    needs_kernels,
    run_once,
    usual,
    waited,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable, probe_network
from pytest_ascendcache.toolchains import Script

CACHE_PATH, ENABLE = "MS_COMPILER_CACHE_PATH", "MS_COMPILER_CACHE_ENABLE"


@rule("ranks/scenarios-separate")
def test_inference_does_not_run_what_was_trained(network: NetworkUnderTest) -> None:
    """Dropout changes its input only in training. The script does not say whether it trains."""
    network.needs_reuse()
    script = Script(dropout=True)
    (run,) = ended(network, network.request(ONE, phase=Phase.TRAINING, script=script))
    if run.returncode != 0:
        raise NotDecidable(f"training {run.result.ending}: {last_words(run)}")
    if not network.kernels() and is_graph(network):
        raise NotDecidable("training keeps nothing")
    run_once(network, ONE, "inference after training", phase=Phase.INFERENCE, script=script)


@rule("incremental/compiles-changed-only")
def test_another_jit_level_is_compiled(network: NetworkUnderTest) -> None:
    def run_at(level: str) -> frozenset[str]:
        which, script = f"the run with jit_level {level}", Script(jit_level=level)
        return run_once(network, ONE, which, script=script).compiled

    if not is_graph(network):
        pytest.skip(f"{network.toolchain.name}: a kernel is the same at every jit_level")
    run_at("O0")
    network.mark()
    if run_at("O0"):
        raise NotDecidable("the same level is compiled again too")
    assert run_at("O1"), "what was compiled with jit_level O0 is run with O1"


@rule("incremental/reuses")
def test_both_caches_at_once_compile_nothing_again(network: NetworkUnderTest) -> None:
    """Fused kernels are part of a compiled network, and both are cached."""
    needs_kernels(network)
    both = {ENABLE: "1"}
    for which in ("the first", "the second"):
        run = run_once(network, usual(network), f"{which} run with both caches", environment=both)
    assert not run.stored, f"the second run compiles again: {', '.join(sorted(run.stored))}"


@rule("ranks/directory")
def test_a_directory_that_is_named_late_is_not_ignored_in_part(network: NetworkUnderTest) -> None:
    """The process changes the variable between two networks. Each network is kept completely, the
    second in either directory."""
    second = network.site / "second"
    first, last = probe_network(LEAKY[0], name="first"), probe_network(LEAKY[1], name="last")
    script = Script(before=(first,), later=((CACHE_PATH, str(second)),))
    run = run_once(network, last, "the second network", script=script)
    kept = [path for path in run.files_written if network.layout.unit.holds(Path(path))]
    whole = [path for path in kept if path.endswith(network.layout.unit.suffixes[-1])]
    assert len(whole) == 2, f"of two networks {len(whole)} are kept: {', '.join(sorted(whole))}"


@rule("incremental/on-by-default")
@pytest.mark.parametrize("value", ["true", "TRUE", "2", " 1"])
def test_an_odd_switch_is_taken_or_named(network: NetworkUnderTest, value: str) -> None:
    """The documents define 0 and 1. Other values turn the cache on, or the run says why not."""
    if not is_graph(network):
        pytest.skip(f"{network.toolchain.name}: is switched by no variable")
    which = f"the run with {ENABLE}={value!r}"
    run = run_once(network, ONE, which, environment={ENABLE: value}, script=Script(fresh=True))
    assert network.kernels() or ENABLE in run.output, f"{ENABLE}={value!r}: silently off"


@rule("ranks/bad-rank-id")
@pytest.mark.parametrize("rank", ["../x", "/../../x", ""])
def test_no_log_is_written_elsewhere(network: NetworkUnderTest, rank: str) -> None:
    """Logs go to the requested directory, and RANK_ID does not lead them out of it."""
    logs = network.site / "logs" / "here"
    logs.mkdir(parents=True)
    environment = {
        "RANK_ID": rank,
        "GLOG_log_dir": str(logs),
        "GLOG_logtostderr": "0",
        "GLOG_v": "1",
    }
    request = network.request(ONE, environment=environment, script=Script(fresh=True))
    with network.watch() as watch:
        run = waited(watch, watch.start(request), HANGS)
    work, cache = (str(each.relative_to(network.site)) for each in (network.work, network.cache))
    written = [each for each in run.files_written if not each.startswith((f"{work}/", f"{cache}/"))]
    if not written:
        if run.returncode == 0:
            raise NotDecidable("no log is written at all")
        return
    inside = str(logs.relative_to(network.site))
    outside = sorted(each for each in written if not each.startswith(f"{inside}/"))
    assert not outside, f"RANK_ID={rank!r}: a log outside its directory: {outside[0]}"


@rule("incremental/reuses")
def test_a_process_from_nothing_and_a_forked_one_share(network: NetworkUnderTest) -> None:
    """Runs that this suite forks share the cache with separate processes."""
    for fresh in (True, False):
        network.cache = network.site / f"cache-{fresh}"
        for again in (fresh, not fresh):
            run = run_once(network, usual(network), script=Script(fresh=again))
            if again is fresh:
                network.mark()
        assert run.compiled == frozenset(), "operators were compiled again"
