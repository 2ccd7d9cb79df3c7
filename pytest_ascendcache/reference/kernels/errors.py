"""Errors of the kernel compiler. Each message is one sentence for the user."""

from __future__ import annotations


class KernelError(ValueError):
    """A kernel cannot be built from what was asked."""


class UnsupportedOperator(KernelError):
    """The operator's type, a data type, a shape or an attribute has no kernel here."""


class UnsupportedSoc(KernelError):
    """The SoC or the machine architecture is not in the table of targets."""


class UnsupportedTuning(KernelError):
    """A tuning parameter is unknown or out of range."""
