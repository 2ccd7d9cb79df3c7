"""How a process ended, in words; what compiles, ranks, clients and scripts have in common."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

_LAST_LINE = 300
"""Characters of a process's last line that are shown."""


def in_words(returncode: int | None, seconds: float) -> str:
    """An exit status in words: negative for a signal, ``None`` where ``seconds`` passed."""
    if returncode is None:
        return f"did not end within {seconds:g} s and was killed"
    if returncode < 0:
        return f"was ended by signal {-returncode}"
    return f"ended with exit status {returncode}"


class ProcessResult(ABC):
    """How one process of a toolchain ended. Dataclasses with these fields derive from it.

    ``returncode`` is negative for a signal, and ``None`` where the ``deadline`` (seconds) passed
    and the process group was killed. ``output`` is the end of what it printed.
    """

    argv: tuple[str, ...]
    returncode: int | None
    deadline: float
    output: str

    @property
    @abstractmethod
    def work(self) -> Path:
        """The directory it ran in."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """What was added to its environment."""

    @property
    def unset(self) -> frozenset[str]:
        """What was taken out of its environment."""
        return frozenset()

    @property
    def missing(self) -> str:
        """What a process that reports success failed to do; empty if it did everything."""
        return ""

    @property
    def succeeded(self) -> bool:
        """Whether the process says so and nothing is missing."""
        return self.returncode == 0 and not self.missing

    @property
    def command(self) -> str:
        """A shell line that does the same."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.settings.items()]
        if self.unset:
            settings = ["env", *(f"-u {name}" for name in sorted(self.unset)), *settings]
        return " ".join([f"cd {shlex.quote(str(self.work))} &&", *settings, shlex.join(self.argv)])

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.returncode == 0 and self.missing:
            return f"reported success but {self.missing}"
        return in_words(self.returncode, self.deadline)

    @property
    def failure(self) -> str:
        """How it ended, and its last line; control characters are shown as question marks."""
        printable = (each if each.isprintable() or each == "\n" else "?" for each in self.output)
        lines = "".join(printable).strip().splitlines()
        said = f": {lines[-1][:_LAST_LINE]}" if lines else " and printed nothing"
        return f"{self.ending}{said}"
