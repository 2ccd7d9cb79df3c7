"""A plugin for ``ci/alarms``: the checks of a run in an order that ``--ascend-seed`` decides."""

from __future__ import annotations

import random

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every worker of a run comes to the same order."""
    random.Random(str(config.getoption("--ascend-seed"))).shuffle(items)
