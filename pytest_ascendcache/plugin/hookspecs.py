"""Hooks for users who bring a toolchain of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain


@pytest.hookspec(firstresult=True)
def pytest_ascendcache_toolchain(name: str, settings: Settings) -> Toolchain | None:
    """Make the toolchain ``--ascend-toolchain=NAME`` asks for; ``None`` for a name not one's own.

    Whatever is returned must satisfy ``pytest_ascendcache.toolchains.Toolchain``;
    ``BaseToolchain`` and ``CommandToolchain`` there do most of it (docs/own-toolchain.md). A
    ``ToolchainError`` says in a sentence why there is none.
    """
