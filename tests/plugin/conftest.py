"""Fixtures that tests of the plugin share."""

from __future__ import annotations

import pytest


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty directory on a machine without a toolkit."""
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester
