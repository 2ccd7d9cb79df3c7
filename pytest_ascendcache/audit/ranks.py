"""Ranks of one job beside each other: what one lacks, and what several have.

Source: document M, frequent questions: where the caches of some ranks are deleted the others wait.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.rank_kernels import RankKernels
from pytest_ascendcache.contract.ranks import SHORTEST_WAIT, TIMEOUT

_NAMED = 5
Names = Callable[[int, frozenset[int]], list[str]]
"""Maps a rank and the keys of kernels to a few of the kernels' names."""


@dataclass(frozen=True)
class Duplicates:
    """Kernels that several ranks have, and the bytes one copy of each would save."""

    kernels: int = 0
    bytes: int = 0


def compare_ranks(
    ledger: Ledger, directories: Mapping[int, str], keys: Mapping[int, array[int]], names: Names
) -> None:
    """Note what each rank of a job lacks; ``keys`` stand for the kernels each has."""
    sets = {
        rank: np.unique(np.frombuffer(keys[rank], dtype=np.int64)) for rank in sorted(directories)
    }
    union = np.unique(np.concatenate([*sets.values()]))
    for rank, own in sets.items():
        lacking = np.setdiff1d(union, own, assume_unique=True)
        if len(lacking):
            some = frozenset(lacking[:_NAMED].tolist())
            which = ", ".join(sorted({name for other in sets for name in names(other, some)}))
            detail = (
                f"lacks {len(lacking)} of {len(union)} kernels that other ranks have ({which}): "
                f"{_waiting(sets, union)}"
            )
            ledger.add(Check.RANKS_AGREE, directories[rank], detail)
    for rank in _absent(sets):
        near = directories[min(sets)].replace(f"rank_{min(sets)}", f"rank_{rank}")
        detail = f"rank {rank} has no directory: {_waiting(sets, union)}"
        ledger.add(Check.RANKS_AGREE, near, detail)


def _waiting(sets: Mapping[int, np.ndarray[tuple[int], np.dtype[np.int64]]], union: object) -> str:
    """Who waits at the next start, and for how long."""
    assert isinstance(union, np.ndarray)
    whole = [str(rank) for rank, own in sets.items() if len(own) == len(union)]
    who = f"ranks {', '.join(whole[:8])}" + (" ..." if len(whole) > 8 else "")
    return (
        f"at the next start {who if whole else 'the others'} wait until it has compiled them, and "
        f"fail after {TIMEOUT} ({SHORTEST_WAIT} s unless it is set; newer MindSpore sets 600)"
    )


def _absent(ranks: Mapping[int, object]) -> Iterator[int]:
    """Ranks between the first and the last; a host may have only some of a job's."""
    return (rank for rank in range(min(ranks), max(ranks)) if rank not in ranks)


def compare_objects(
    ledger: Ledger, directories: Mapping[int, str], kernels: Mapping[int, RankKernels], names: Names
) -> Duplicates:
    """Note kernels that differ from rank to rank, and count those that do not."""
    ranks = sorted(kernels)
    parts = [(np.frombuffer(kernels[rank].whole, dtype=np.int64), rank) for rank in ranks]
    keys = np.concatenate([part for part, _ in parts])
    owners = np.concatenate([np.full(len(part), rank) for part, rank in parts])
    objects = np.concatenate([np.frombuffer(kernels[r].objects, dtype=np.int64) for r in ranks])
    sizes = np.concatenate([np.frombuffer(kernels[r].sizes, dtype=np.int64) for r in ranks])
    order = np.argsort(keys, kind="stable")
    keys, owners, objects, sizes = (each[order] for each in (keys, owners, objects, sizes))
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    other = objects[again] != objects[again - 1]
    differing = again[other]
    for rank in np.unique(owners[differing]).tolist():
        mine = differing[owners[differing] == rank]
        which = ", ".join(names(rank, frozenset(keys[mine[:_NAMED]].tolist())))
        detail = (
            f"{len(mine)} of its kernels are not those of the rank before, under the same names "
            f"({which}): the ranks do not run the same code"
        )
        ledger.add(Check.RANK_DUPLICATES, directories[rank], detail, int(sizes[mine].sum()))
    same = again[~other]
    return Duplicates(len(same), int(sizes[same].sum()))
