"""The toolchain's own version, looked up once: a process forked from a warm one has it already."""

from __future__ import annotations

from functools import cache


@cache
def own_version() -> str:
    """The installed version of this package."""
    # Loaded here: it takes as long as the rest of a command's start.
    from importlib.metadata import version

    return version("pytest-ascendcache")
