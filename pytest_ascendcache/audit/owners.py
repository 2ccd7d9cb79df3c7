"""Who owns the files of each cache."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from functools import partial

from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.reading import FirstFew

_NAMED = 20
"""How many paths of one owner are named."""

_RANK = re.compile(r"(?:rank|device)_?\d+")


class Owners:
    """Counts the files of each owner, cache by cache: users beside each other have caches of their
    own."""

    def __init__(self) -> None:
        self._caches: defaultdict[str, defaultdict[int, FirstFew]] = defaultdict(
            lambda: defaultdict(partial(FirstFew, most=_NAMED))
        )

    def add(self, directory: str, path: str, owner: int) -> None:
        """Count a file or directory that lies in (or is) a cache's ``directory``."""
        self._caches[cache_of(directory)][owner].add(path)

    def conclude(self, ledger: Ledger) -> None:
        """Report the files of every owner but the one with most of a cache."""
        for owners in self._caches.values():
            (most, of_most), *others = sorted(owners.items(), key=lambda each: -each[1].count)
            for owner, files in others:
                detail = (
                    f"is one of {files.count} of user {owner}; {of_most.count} are of user {most}: "
                    "neither can renew or remove the other's"
                )
                for path in files.first:
                    ledger.add(Check.ONE_OWNER, path, detail)


def cache_of(directory: str) -> str:
    """The cache that a directory belongs to: all chips of one, all ranks of one job."""
    parts = directory.split("/")
    if "kernel_cache" in parts:
        return "/".join(parts[: parts.index("kernel_cache")])
    return "/".join(itertools.takewhile(lambda part: not _RANK.fullmatch(part), parts))
