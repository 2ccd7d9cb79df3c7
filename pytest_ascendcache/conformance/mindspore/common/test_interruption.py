"""Runs of MindSpore networks that are killed, lose power, or meet errors of the disk. The states of
the graph cache are rebuilt from one recording; the operator cache is interrupted at its linker, in
``operator_cache/test_operator_cache.py``."""

from __future__ import annotations

import pytest

from pytest_ascendcache.conformance.kit.mindspore_stories import is_graph, recovers, usual
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.faults import Act, Action, CrashKind, Operation
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable, spread

KILLED, MID_WRITE, POWER_LOSS, _ = CrashKind


def _recovers_from(kind: CrashKind, network: NetworkUnderTest) -> None:
    if not is_graph(network):
        pytest.skip(
            f"{network.toolchain.name}: a record does not show which writes are its linker's"
        )
    network.evidence.crash = kind.value
    wanted = usual(network)
    running = network.interruption(wanted)
    for state in running.states(kind):
        running.enter(state)
        recovers(network, wanted, str(state))


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("kind", [KILLED, MID_WRITE], ids=lambda each: each.name)
def test_an_interrupted_run_is_made_good(network: NetworkUnderTest, kind: CrashKind) -> None:
    _recovers_from(kind, network)


@rule("robust/power-loss")
def test_after_a_power_loss_nothing_damaged_is_run(network: NetworkUnderTest) -> None:
    _recovers_from(POWER_LOSS, network)


@rule("robust/interrupted-compile")
def test_a_run_that_is_really_killed_is_made_good(network: NetworkUnderTest) -> None:
    if not is_graph(network):
        pytest.skip(f"{network.toolchain.name}: really killed at its linker instead")
    network.evidence.crash = KILLED.value
    wanted = usual(network)
    running = network.interruption(wanted)
    for operation in _some([each for each in running.operations if each.act.changes], 3):
        running.strike(Action.KILL, operation)
        recovers(network, wanted, f"killed before {operation}")


def _some(operations: list[Operation], most: int) -> list[Operation]:
    if not operations:
        raise NotDecidable("no operation on a file was seen that could be disturbed")
    return spread(operations, most)


_FAILING = (
    (Action.ENOSPC, (Act.MAKE_DIRECTORY, Act.CREATE, Act.WRITE)),
    (Action.EACCES, (Act.CREATE,)),
)


@rule("robust/disk-full")
@pytest.mark.parametrize(("action", "acts"), _FAILING, ids=[each.name for each, _ in _FAILING])
def test_a_failing_disk_costs_the_cache_and_not_the_run(
    network: NetworkUnderTest, action: Action, acts: tuple[Act, ...]
) -> None:
    """The run succeeds, or says why it fails. The runs after it are right."""
    if not is_graph(network):
        pytest.skip(f"{network.toolchain.name}: strace cannot aim at one of its many processes")
    wanted = usual(network)
    running = network.interruption(wanted)
    for operation in _some([each for each in running.operations if each.act in acts], 4):
        run = running.strike(action, operation)
        where = f"{action.value} at {operation}"
        assert run.returncode is not None, f"{where}: the run {run.result.ending}"
        assert run.returncode >= 0, f"{where}: the run {run.result.ending}"
        if run.succeeded:
            assert run.wrong == {}, f"{where}: wrong outputs"
        else:
            assert run.output.strip(), f"{where}: the run fails and prints nothing"
        recovers(network, wanted, where)
