"""A plugin for ``ci/alarms`` that orders the checks of a run by ``--ascend-seed``."""

from __future__ import annotations

import random

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the checks; every worker of a run gets the same order."""
    random.Random(str(config.getoption("--ascend-seed"))).shuffle(items)
