"""What our tests have in common: our operators, and our way to call atc."""

from pathlib import Path

import pytest

from pytest_ascendcache import read_single_op, reference_toolchain

MODELS = Path(__file__).parent.parent / "models"


@pytest.fixture(scope="session")
def our_operators():
    """The operators of our model, from the file atc is given too."""
    return read_single_op(MODELS / "attention.json")


def pytest_ascendcache_toolchain(name, settings):
    """``--ascend-toolchain=ours``: here the embedded reference, started as a fresh process.

    A wrapper script with atc's interface needs no hook: ``--ascend-atc=tools/our-atc``.
    """
    if name != "ours":
        return None
    toolchain = reference_toolchain("process", settings.timeout)
    toolchain.name = "ours"
    return toolchain
