"""Who owns the files of each cache."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict

from pytest_ascendcache.audit.findings import Check, Ledger

_NAMED = 20
"""How many paths of one owner are named."""

_RANK = re.compile(r"(?:rank|device)_?\d+")


class Owners:
    """Counts the files of each owner, cache by cache: users beside each other have caches of their
    own."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._named: defaultdict[tuple[str, int], list[str]] = defaultdict(list)

    def add(self, directory: str, path: str, owner: int) -> None:
        """Count a file or directory that lies in (or is) a cache's ``directory``."""
        cache = cache_of(directory)
        self._counts[cache][owner] += 1
        if self._counts[cache][owner] <= _NAMED:
            self._named[cache, owner].append(path)

    def conclude(self, ledger: Ledger) -> None:
        """Report the files of every owner but the one with most of a cache.

        Other users can neither renew their access times nor remove them.
        """
        for cache, counts in self._counts.items():
            (most, of_most), *others = counts.most_common()
            for owner, count in others:
                detail = (
                    f"is one of {count} of user {owner}; {of_most} are of user {most}: neither can "
                    "renew or remove the other's"
                )
                for path in self._named[cache, owner]:
                    ledger.add(Check.ONE_OWNER, path, detail)


def cache_of(directory: str) -> str:
    """The cache that a directory belongs to: all chips of one, all ranks of one job."""
    parts = directory.split("/")
    if "kernel_cache" in parts:
        return "/".join(parts[: parts.index("kernel_cache")])
    return "/".join(itertools.takewhile(lambda part: not _RANK.fullmatch(part), parts))
