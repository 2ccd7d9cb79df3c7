"""Cases that share runs: all of them in one story, and each alone where that fails.

A run compiles many operators. Where a story that has all cases in it goes well, each of them has.
Where anything in it is wrong, its cases are asked one by one, as if there were no story: then no
verdict depends on neighbours, and the message is that of the case.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError


class Caches(Protocol):
    """Where empty caches come from: the session."""

    def sandbox(self, name: str) -> Path:
        """A new empty directory."""

    def cache(self, sandbox: Path, evidence: Evidence) -> CacheUnderTest:
        """A cache under test in it."""

    def discard(self, sandbox: Path) -> None:
        """Remove a directory."""


Story = Callable[[CacheUnderTest], None]
"""Compiles all cases in an empty cache, and asserts what holds where each is as it has to be."""


class Together:
    """Stories of all cases of a check, each told once in this process."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._told: dict[str, Evidence | None] = {}

    def go_well(self, name: str, story: Story, evidence: Evidence) -> bool:
        """Whether all cases did in the story of this name; ``evidence`` gets the steps of its runs,
        and counts them where it is the first to ask."""
        if name not in self._told:
            self._told[name] = self._tell(name, story, evidence)
        theirs = self._told[name]
        if theirs is None:
            return False
        evidence.control = theirs.control
        evidence.steps += theirs.steps
        return True

    def _tell(self, name: str, story: Story, evidence: Evidence) -> Evidence | None:
        """What was seen in a story that went well."""
        seen = Evidence()
        sandbox = self._caches.sandbox(name)
        try:
            story(self._caches.cache(sandbox, seen))
        except (AssertionError, NotDecidable, ToolchainError, KernelRunError):
            return None
        finally:
            self._caches.discard(sandbox)
            evidence.starts += seen.starts
            evidence.compiles += seen.compiles
        return seen
