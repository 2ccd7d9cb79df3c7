"""The command's own words, for people. No verdict rests on them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

_ORDER = {"debug": 0, "info": 1, "warning": 2, "error": 3, "null": 4}


@dataclass(frozen=True)
class Log:
    """Writes to standard error what ``--log`` asks for; warnings always."""

    level: str

    def info(self, text: str) -> None:
        """Say what is being done."""
        if _ORDER[self.level] <= _ORDER["info"]:
            print(f"[INFO] {text}", file=sys.stderr)

    def warning(self, text: str) -> None:
        """Say what did not work although the run goes on."""
        print(f"[WARNING] {text}", file=sys.stderr)
