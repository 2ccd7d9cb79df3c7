"""Incremental build: a network that runs again compiles nothing."""

from pathlib import Path

from pytest_ascendcache import read_network

MODELS = Path(__file__).parent.parent / "models"


def test_a_restart_compiles_nothing(ascend_network):
    network = read_network(MODELS / "regression.json")
    ascend_network.warm(network)
    run = ascend_network.run(network)
    assert run.compiled == frozenset()
    assert run.reused == {"square", "exp"}
    assert not run.wrong
