"""A plugin of coverage that has a process forked by a forked one measured once.

Coverage patches ``os._exit`` and ``fork`` again in each child, on top of what the child has of its
parent: the fifth generation would start, and write, sixteen measurements. ``ci/coverage`` puts this
beside coverage, where every process can import it.
"""

from __future__ import annotations

import os
import posix
from typing import Any

from coverage import patch

_usual_fork = patch._patch_fork
_patched = False


def _patch_fork(debug: Any) -> None:
    global _patched
    if not _patched:
        _patched = True
        _usual_fork(debug)


def coverage_init(*_: Any) -> None:
    """Called by coverage before it patches."""
    os._exit = posix._exit
    patch._patch_fork = _patch_fork
