"""Runs that several checks share: if one story with all cases goes well, each case has.

Otherwise each is judged alone, as if there were no story: no verdict depends on its neighbours, and
the message is that of the case.
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
        """A cache under test in a sandbox."""

    def discard(self, sandbox: Path) -> None:
        """Remove a sandbox."""


def new_cache(caches: Caches, name: str, evidence: Evidence) -> CacheUnderTest:
    """An empty cache in a sandbox of this name, which ``evidence`` points to."""
    sandbox = caches.sandbox(name)
    evidence.sandbox = str(sandbox)
    return caches.cache(sandbox, evidence)


def take_over(cache: CacheUnderTest, evidence: Evidence) -> None:
    """Give a check the steps of the runs that an earlier one made in a cache, where it compiles
    on."""
    earlier = cache.evidence
    evidence.sandbox, evidence.control = earlier.sandbox, earlier.control
    evidence.steps += earlier.steps
    evidence.ran(cache.witness)
    cache.evidence = evidence


Story = Callable[[CacheUnderTest], None]
"""Compiles all cases in an empty cache, and asserts what holds if every case goes well."""


class Together:
    """The stories of this process, each played once."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._played: dict[str, Evidence | None] = {}

    def go_well(self, name: str, story: Story, evidence: Evidence) -> bool:
        """Whether all cases went well in the story of this name, whose steps ``evidence`` gets; the
        first check to ask also counts its runs."""
        if name not in self._played:
            self._played[name] = self._play(name, story, evidence)
        played = self._played[name]
        if played is None:
            return False
        evidence.control = played.control
        evidence.steps += played.steps
        return True

    def _play(self, name: str, story: Story, evidence: Evidence) -> Evidence | None:
        """The evidence of a story that went well, else ``None``."""
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
