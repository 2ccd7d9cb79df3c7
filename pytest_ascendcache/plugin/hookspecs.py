"""The hook for users who bring their own toolchain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain


@pytest.hookspec(firstresult=True)
def pytest_ascendcache_toolchain(name: str, settings: Settings) -> Toolchain | None:
    """Create the toolchain for ``--ascend-toolchain=NAME``; return ``None`` for any other name.

    The toolchain derives from ``pytest_ascendcache.toolchains.BaseToolchain``, or from
    ``CommandToolchain`` there, which does most of the work (docs/own-toolchain.md).
    Raise a ``ToolchainError`` with a sentence for the user if it cannot be created.
    """
