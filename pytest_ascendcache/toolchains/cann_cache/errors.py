"""What is said where CANN's sources cannot be built or judged."""

from __future__ import annotations

from pytest_ascendcache.processes.errors import ToolchainError


class SourceError(ToolchainError):
    """A checkout that cannot be built: one sentence that names the file, symbol or tool."""
