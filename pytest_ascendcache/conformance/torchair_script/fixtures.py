"""Fixtures of the checks of a user's script."""

from __future__ import annotations

import pytest

from pytest_ascendcache.observation.script import ScriptUnderTest

__all__ = ["applicable", "script"]


@pytest.fixture(autouse=True)
def applicable() -> None:
    """These checks are collected only for a script, so they always apply."""


@pytest.fixture
def script(ascend_script: ScriptUnderTest) -> ScriptUnderTest:
    """The user's script, in directories of the check."""
    return ascend_script
