"""The messages of a command. They are for people; no verdict rests on them."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Log:
    """Writes to standard error: messages of the level of ``--log``, and every warning."""

    level: str

    def info(self, text: str) -> None:
        """Report a step of the run."""
        if self.level in ("debug", "info"):
            print(f"[INFO] {text}", file=sys.stderr)

    def warning(self, text: str) -> None:
        """Report something that failed although the run goes on."""
        print(f"[WARNING] {text}", file=sys.stderr)
