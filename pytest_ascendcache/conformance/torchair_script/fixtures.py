"""What the checks of a user's script are given."""

from __future__ import annotations

import pytest

from pytest_ascendcache.observation.script import ScriptUnderTest

__all__ = ["applicable", "script"]


@pytest.fixture(autouse=True)
def applicable() -> None:
    """The script is what these checks need, and they are only there with one."""


@pytest.fixture
def script(ascend_script: ScriptUnderTest) -> ScriptUnderTest:
    """The user's script, in directories of the check's own."""
    return ascend_script
