"""Command lines as people paste them."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path


@cache
def pytest_command() -> tuple[str, ...]:
    """The words that start pytest with the interpreter that runs now.

    That is ``pytest`` where PATH finds the one of this interpreter's environment, and
    ``/path/to/python -m pytest`` where it finds another one or none.
    """
    found = shutil.which("pytest")
    beside = Path(sys.executable).with_name("pytest")
    if found is not None and beside.exists() and Path(found).samefile(beside):
        return ("pytest",)
    return (sys.executable, "-m", "pytest")
