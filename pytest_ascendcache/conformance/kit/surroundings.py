"""Surroundings that decide no kernel: what is reused in one of them is reused in the others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Surroundings:
    """Variables that a process inherits, and its umask."""

    environment: Mapping[str, str]
    umask: int | None = None


SURROUNDINGS = {
    "another-user": Surroundings({"PATH": f"{os.environ['PATH']}:/nowhere", "USER": "another"}),
    "another-locale": Surroundings({"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}),
    "another-log-level": Surroundings(
        {"ASCEND_GLOBAL_LOG_LEVEL": "3", "ASCEND_SLOG_PRINT_TO_STDOUT": "0"}
    ),
    "the-C-locale": Surroundings({"LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Pacific/Kiritimati"}),
    "HOME-is-empty": Surroundings({"HOME": ""}, umask=0o027),
    "HOME-does-not-exist": Surroundings({"HOME": "/nonexistent/home"}, umask=0o077),
}
