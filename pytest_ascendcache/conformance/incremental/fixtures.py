"""How stories are played in which ranks lose patience."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ascendcache.conformance.kit.gangs import Story
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import NetworkUnderTest
from pytest_ascendcache.toolchains import Toolchain

__all__ = ["rehearse"]


@pytest.fixture
def rehearse(
    request: pytest.FixtureRequest, toolchain: Toolchain, network: NetworkUnderTest
) -> Callable[[Story], None]:
    """Plays a story in which a timeout passes; it is told how long a second of waiting lasts.

    Where ranks of a busy machine may have come too late for a rehearsed timeout, the story is
    played once more with ten times of it, in directories of its own.
    """
    if request.getfixturevalue("ascend_session").settings.real_waits:
        return lambda story: story(1.0)
    if Capability.REHEARSED_WAITS not in toolchain.capabilities:
        pytest.skip(f"{toolchain.name}: {Capability.REHEARSED_WAITS.lacking}")

    def play(story: Story) -> None:
        try:
            story(1 / 400)
        except AssertionError:
            network.cache = network.site / "second-cache"
            story(1 / 40)

    return play
