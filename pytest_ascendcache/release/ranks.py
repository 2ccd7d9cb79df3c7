"""Caches of several cards: every card has one.

Source: document M (MindSpore incremental build): a rank whose cache is missing compiles while
the others wait for it.
"""

from __future__ import annotations

from pathlib import Path

from pytest_ascendcache.caches.recognition import rank_number
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.problem import Problem, names


def rank_directories(cache: Path) -> dict[int, Path]:
    """MindSpore's directories ``rank_<n>`` below a cache, by number."""
    if not cache.is_dir():
        return {}
    ranks = {each: rank_number(each.name) for each in cache.iterdir() if each.is_dir()}
    return {rank: path for path, rank in ranks.items() if rank is not None}


def rank_problems(release: Release) -> list[Problem]:
    """Caches by rank that do not have one of every card, and of no other."""
    found = []
    for cache in release.caches:
        ranks = rank_directories(cache)
        if not ranks:
            continue
        wanted = range(release.cards)
        without = [f"rank_{rank}" for rank in wanted if not _has_kernels(ranks.get(rank))]
        others = [f"rank_{rank}" for rank in sorted(ranks) if rank not in wanted]
        if without:
            found.append(
                Problem(
                    f"{cache} has no kernels of {names(without)}: that card compiles while the "
                    "others wait for it, HCCL_CONNECT_TIMEOUT seconds at most",
                    f"a cache of each of {release.cards} cards",
                )
            )
        if others:
            found.append(
                Problem(f"{cache} has {names(others)}", f"caches of {release.cards} cards only")
            )
    return found


def _has_kernels(directory: Path | None) -> bool:
    return directory is not None and next(directory.glob("kernel_meta/*.o"), None) is not None
