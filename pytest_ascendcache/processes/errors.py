"""The error of a toolchain that cannot be run."""

from __future__ import annotations


class ToolchainError(Exception):
    """The toolchain could not be run, so no promise can be judged."""
