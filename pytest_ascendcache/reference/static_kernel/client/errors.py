"""What goes wrong with static kernels."""

from __future__ import annotations


class StaticKernelError(Exception):
    """Static kernels cannot be had. One sentence: what is wrong, and what to set instead."""


class CardsError(StaticKernelError):
    """The cards cannot go on together: one of them failed, is missing, or does not fit."""
