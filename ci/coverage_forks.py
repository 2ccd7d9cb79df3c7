"""A plugin of coverage that measures each forked process once.

Coverage patches ``os._exit`` and ``fork`` again in each child, on top of the parent's patches: the
fifth generation would start and write sixteen measurements. ``ci/coverage`` copies this file into
site-packages, where every process can import it.
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
    """Entry point of the plugin, called before coverage patches."""
    os._exit = posix._exit
    patch._patch_fork = _patch_fork
