"""MindSpore's graph cache: what its key must distinguish, and damage to either of its files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import (
    ANY_FILE,
    GANG_HANGS,
    LEAKY,
    ONE,
    WAIT,
    all_right,
    ended,
    gave_up,
    last_words,
    leaky,
    recovers,
    right,
    run_once,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Numbers
from pytest_ascendcache.faults import FaultGate
from pytest_ascendcache.observation import (
    SLOPES,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    launched_gang,
    probe_network,
)
from pytest_ascendcache.toolchains import Script

DAMAGED_FILES: dict[str, Callable[[Path], None]] = {
    **ANY_FILE,
    "foreign": lambda path: _write(path, b"#!/bin/sh\nexit 0\n"),
}


def _write(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("file", ["mindir", "hash"])
@pytest.mark.parametrize("damage", DAMAGED_FILES)
def test_a_damaged_file_heals(network: NetworkUnderTest, file: str, damage: str) -> None:
    network.run(ONE)
    (graph,) = network.kernels().values()
    DAMAGED_FILES[damage](graph.object_path if file == "mindir" else graph.digest_path)
    recovers(network, ONE, f".{file} {damage}", between=True)


@rule("robust/heals-damaged-entry")
def test_both_files_empty_heal(network: NetworkUnderTest) -> None:
    network.run(ONE)
    (graph,) = network.kernels().values()
    for path in graph.paths:
        ANY_FILE["empty"](path)
    recovers(network, ONE, "both empty")


@rule("security/verify-before-load")
def test_a_network_that_was_edited_is_not_run(network: NetworkUnderTest) -> None:
    network.warm(ONE)
    run = run_once(network, ONE)
    assert run.reused == frozenset(), "an edited network was run: nothing has its digest"


@rule("incremental/compiles-changed-only")
def test_networks_of_one_process_are_told_apart(network: NetworkUnderTest) -> None:
    """The same script runs its two networks in both orders."""
    first = probe_network(LEAKY[0], name="first_network")
    second = probe_network(Probe("Square"), name="second_network")
    for before, last in ((first, second), (second, first)):
        script = Script(before=(before,))
        run_once(network, last, f"the run with {last.name} last", script=script)


STYLES = {
    "script": Script(),
    "imported-module": Script(module=True),
    "module-imported-in-a-function": Script(late_import=True),
}


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("style", STYLES)
def test_changed_code_is_compiled(network: NetworkUnderTest, style: str) -> None:
    """Another operator replaces the first one in the file that has the code."""
    before = probe_network(leaky(SLOPES[0], "first"))
    after = probe_network(Probe("Tanh", name="first"))
    script = STYLES[style]
    run_once(network, before, script=script)
    run_once(network, after, "the run with changed code", script=script)


@rule("incremental/reuses")
@pytest.mark.parametrize("style", STYLES)
def test_unchanged_code_is_reused(network: NetworkUnderTest, style: str) -> None:
    script = STYLES[style]
    for expected in (ONE.operators[0].name, None):
        run = run_once(network, ONE, script=script)
        assert run.compiled == (frozenset([expected]) if expected else frozenset())
        if expected:
            network.mark()


@rule("incremental/info-describes")
def test_the_digest_alone_decides(network: NetworkUnderTest) -> None:
    """Without the digest's file nothing is reused, and the file is written again."""
    network.warm(ONE)
    (graph,) = network.kernels().values()
    graph.digest_path.unlink()
    (run,) = ended(network, network.request(ONE))
    assert run.succeeded, f"the run {run.result.ending}: {last_words(run)}"
    assert run.compiled == {LEAKY[0].node_name}
    assert run_once(network, ONE).wrong == {}
    assert graph.digest_path.is_file()


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("seconds", [5, 600], ids=["short-wait", "long-wait"])
def test_warm_ranks_wait_for_a_cold_one(network: NetworkUnderTest, seconds: int) -> None:
    """Rank 1 is cold and is held; rank 0 is warm and waits, too short or long enough."""
    with launched_gang(network, ONE, 2) as gang:
        for run in gang.wait(GANG_HANGS):
            right(run, "a cold rank")
    for unit in network.kernels(1).values():
        for path in unit.paths:
            path.unlink(missing_ok=True)
    network.mark(0)
    script = Script(held=((1, network.sandbox / "gate"),))
    with (
        FaultGate(network.sandbox / "gate") as gate,
        launched_gang(network, ONE, 2, {WAIT: str(seconds)}, script) as gang,
    ):
        if not gate.wait(time.monotonic() + GANG_HANGS):
            raise NotDecidable("rank 1 did not get to its network")
        if seconds > GANG_HANGS:
            gang.settles()  # rank 0 waits by now
            gate.release()
        runs = gang.wait(GANG_HANGS)
        if seconds > GANG_HANGS:
            all_right(gang, runs)
            assert [run.reused for run in runs] == [{LEAKY[0].node_name}, frozenset()]
            return
    gave_up(runs[0])


@rule("ranks/killed-rank")
@pytest.mark.parametrize("late", [False, True], ids=["before-a-network", "between-networks"])
def test_a_killed_rank_ends_the_others(network: NetworkUnderTest, late: bool) -> None:
    first, last = probe_network(LEAKY[0], name="first"), probe_network(LEAKY[1], name="last")
    held = ((1, network.sandbox / "gate"),)
    script = Script(before=(first,), held=held, held_late=late)
    with (
        FaultGate(network.sandbox / "gate") as gate,
        launched_gang(network, last, 2, {WAIT: "30"}, script) as gang,
    ):
        if not gate.wait(time.monotonic() + GANG_HANGS):
            raise NotDecidable("rank 1 did not get to its network")
        gang.settles()  # rank 0 waits by now
        os.kill(int((network.sandbox / "gate/pid").read_text()), signal.SIGKILL)
        runs = gang.wait(GANG_HANGS)
        blamed = gang.blamed(1)
    assert runs[0].returncode is not None, f"rank 0 still waits after {GANG_HANGS:g} s"
    assert runs[0].returncode != 0, network.evidence.found(
        Numbers.WITHOUT_A_RANK, "the gang ended well without rank 1"
    )
    assert runs[0].result.left_behind == 0, "processes were left behind"
    named = 1 in blamed
    assert named, f"nobody names rank 1, which was killed; errors name the ranks {blamed}"
    with launched_gang(network, last, 2, script=Script(before=(first,))) as gang:
        for rank, run in enumerate(gang.wait(GANG_HANGS)):
            right(run, f"afterwards rank {rank}")
