"""A run of pytest in which no check has another's work to use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest


class NothingShared:
    """The plugin that has each check do itself what the checks of a session do once for all, so
    that its notes say what it comes by when it is asked alone."""

    def __init__(self) -> None:
        self._session: Any = None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Note the session's shared state when it is made."""
        made: Any = yield
        if fixturedef.argname == "ascend_session":
            self._session = made.get_result()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget what was compiled for the checks before."""
        if self._session is None:
            return
        state = vars(self._session)
        for name in ("shared", "package_shelf"):
            state.pop(name, None)
        if "network_control" in state:
            state["network_control"] = replace(state["network_control"], warm={}, shelf=None)
