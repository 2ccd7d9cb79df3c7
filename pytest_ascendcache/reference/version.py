"""The toolchain's version."""

from __future__ import annotations

from functools import cache


@cache  # a forked run inherits it
def own_version() -> str:
    """The installed version of this package."""
    # Imported late, because the import takes as long as the rest of a command's start.
    from importlib.metadata import version

    return version("pytest-ascendcache")
