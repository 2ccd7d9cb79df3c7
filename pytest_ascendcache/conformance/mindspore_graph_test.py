"""MindSpore's graph cache: what its key has to separate, and damage to either of its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.mindspore_stories import (
    ANY_FILE,
    LEAKY,
    ONE,
    ended,
    last_words,
    leaky,
    recovers,
    right,
    run_once,
)
from pytest_ascendcache.conformance.vocabulary import rule
from pytest_ascendcache.observation import SLOPES, NetworkUnderTest, Probe, probe_network
from pytest_ascendcache.toolchains import Script

DAMAGED_FILES: dict[str, Callable[[Path], None]] = {
    **ANY_FILE,
    "foreign": lambda path: _write(path, b"#!/bin/sh\nexit 0\n"),
    "zeros": lambda path: _write(path, bytes(path.stat().st_size)),
}


def _write(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damage", DAMAGED_FILES)
@pytest.mark.parametrize("file", ["mindir", "hash"])
def test_a_damaged_file_heals(network: NetworkUnderTest, file: str, damage: str) -> None:
    network.run(ONE)
    (graph,) = network.kernels().values()
    DAMAGED_FILES[damage](graph.object_path if file == "mindir" else graph.digest_path)
    recovers(network, ONE, f".{file} {damage}")


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
    (run,) = ended(network, network.request(ONE))
    right(run)
    assert run.reused == frozenset(), "an edited network was run: nothing has its digest"


@rule("incremental/compiles-changed-only")
def test_networks_of_one_process_are_told_apart(network: NetworkUnderTest) -> None:
    """The same script runs its two networks in the other order."""
    first = probe_network(LEAKY[0], name="first_network")
    second = probe_network(Probe("Square"), name="second_network")
    for before, last in ((first, second), (second, first)):
        request = network.request(last, script=Script(before=(before,)))
        (run,) = ended(network, request)
        right(run, f"the run with {last.name} last")


STYLES = {
    "script": lambda extra: Script(extra=extra),
    "imported-module": lambda extra: Script(module=True, extra=extra),
    "module-imported-in-a-function": lambda extra: Script(late_import=True, extra=extra),
}


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("style", STYLES)
def test_changed_code_is_compiled(network: NetworkUnderTest, style: str) -> None:
    """Another operator is written in the place of the first, in the file that has the code."""
    before = probe_network(leaky(SLOPES[0], "first"))
    after = probe_network(Probe("Tanh", name="first"))
    script = STYLES[style]("")
    (cold,) = ended(network, network.request(before, script=script))
    right(cold)
    (run,) = ended(network, network.request(after, script=script))
    right(run, "the run with changed code")


@rule("incremental/reuses")
@pytest.mark.parametrize("style", STYLES)
def test_unchanged_code_is_reused(network: NetworkUnderTest, style: str) -> None:
    script = STYLES[style]("")
    for expected in (ONE.operators[0].name, None):
        (run,) = ended(network, network.request(ONE, script=script))
        right(run)
        assert run.compiled == (frozenset([expected]) if expected else frozenset())
        if expected:
            network.mark()


@rule("incremental/info-describes")
def test_the_digest_alone_decides(network: NetworkUnderTest) -> None:
    """The other file that is kept: without it nothing is reused, and it is written again."""
    network.warm(ONE)
    (graph,) = network.kernels().values()
    graph.digest_path.unlink()
    (run,) = ended(network, network.request(ONE))
    assert run.succeeded, f"the run {run.result.ending}: {last_words(run)}"
    assert run.compiled == {LEAKY[0].node_name}
    assert run_once(network, ONE).wrong == {}
    assert graph.digest_path.is_file()
