"""How a process ended, in words: shared by compiles, ranks, clients and conversions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_LAST_LINE = 300
"""Characters of a process's last line that are shown."""


def in_words(returncode: int | None, seconds: float) -> str:
    """An exit status in words. It is negative for a signal, and None if the process was killed
    after ``seconds``."""
    if returncode is None:
        return f"did not end within {seconds:g} s and was killed"
    if returncode < 0:
        return f"was ended by signal {-returncode}"
    return f"ended with exit status {returncode}"


class EndingRequest(Protocol):
    """What a process was started for."""

    @property
    def work(self) -> Path:
        """The working directory."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that were added to the environment."""


@dataclass(frozen=True)
class ProcessResult:
    """How one process of a toolchain ended. Results of each kind of process derive from it.
    ``returncode`` is negative for a signal, and None if the process group was killed at the
    ``deadline`` (seconds). ``output`` is the end of what the process printed."""

    request: EndingRequest
    argv: tuple[str, ...]
    returncode: int | None
    deadline: float
    output: str

    @property
    def work(self) -> Path:
        """The working directory."""
        return self.request.work

    @property
    def settings(self) -> Mapping[str, str]:
        """The variables that were added to the environment."""
        return self.request.environment

    @property
    def unset(self) -> frozenset[str]:
        """The variables that were removed from the environment."""
        return frozenset()

    @property
    def missing(self) -> str:
        """What a process that reports success failed to do; empty if it did everything."""
        return ""

    @property
    def succeeded(self) -> bool:
        """Whether the process reports success and nothing is missing."""
        return self.returncode == 0 and not self.missing

    @property
    def command(self) -> str:
        """An equivalent shell line."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.settings.items()]
        if self.unset:
            settings = ["env", *(f"-u {name}" for name in sorted(self.unset)), *settings]
        return " ".join([f"cd {shlex.quote(str(self.work))} &&", *settings, shlex.join(self.argv)])

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        if self.returncode == 0 and self.missing:
            return f"reported success but {self.missing}"
        return in_words(self.returncode, self.deadline)

    @property
    def failure(self) -> str:
        """How the process ended, and its last line. Control characters become question marks."""
        printable = (char if char.isprintable() or char == "\n" else "?" for char in self.output)
        lines = "".join(printable).strip().splitlines()
        if not lines:
            return f"{self.ending} and printed nothing"
        last = lines[-1]
        if len(last) > _LAST_LINE:  # not in the middle of a word
            last = f"{last[:_LAST_LINE].rsplit(' ', 1)[0]} ..."
        return f"{self.ending}: {last}"
