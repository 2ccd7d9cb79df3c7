"""Plays stories in which a timeout of ranks passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ascendcache.conformance.kit.gangs import Story
from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import NetworkUnderTest
from pytest_ascendcache.toolchains import Toolchain

__all__ = ["rehearse"]

Rehearse = Callable[[Story], None]


@pytest.fixture
def rehearse(
    request: pytest.FixtureRequest, toolchain: Toolchain, network: NetworkUnderTest
) -> Rehearse:
    """Plays a story, with the real length of one second of waiting as its argument.

    A story that fails is played again with seconds ten times as long, in other directories: on a
    busy machine, ranks may have come too late for the shorter ones.
    """
    if request.getfixturevalue("ascend_session").settings.real_waits:
        return lambda story: story(1.0)
    needs(toolchain, Capability.REHEARSED_WAITS)

    def play(story: Story) -> None:
        try:
            story(1 / 400)
        except AssertionError:
            network.cache = network.site / "second-cache"
            story(1 / 40)

    return play
