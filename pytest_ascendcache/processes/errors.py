"""What goes wrong with another process."""

from __future__ import annotations


class ToolchainError(Exception):
    """The toolchain could not be run; says nothing of the promise under test."""
