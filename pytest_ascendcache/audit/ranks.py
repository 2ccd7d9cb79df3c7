"""Compares the ranks of one job: what one lacks, and what several have.

Source: document M, frequent questions: if the caches of some ranks are deleted, the others wait.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, permutations

import numpy as np

from pytest_ascendcache.audit.cann import KernelFolder
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.mindspore import RankKernels
from pytest_ascendcache.contract.ranks import SHORTEST_WAIT, TIMEOUT

_NAMED = 5
_CAUSES = (
    "it was compiled by another toolchain version, for another chip, from another network, for "
    "inference instead of training, or in a job of one card instead of several"
)
Keys = np.ndarray[tuple[int], np.dtype[np.int64]]
Names = Callable[[int, frozenset[int]], list[str]]
"""Maps a rank and the keys of kernels to a few of the kernels' names."""


def compare_ranks(
    ledger: Ledger,
    directories: Mapping[int, str],
    keys: Mapping[int, array[int]],
    names: Names,
    differs: Callable[[int], str],
) -> str:
    """Report what each rank of a job lacks. ``keys`` stand for the kernels or graphs of a rank, and
    ``differs`` says what those of a rank record, and others otherwise.
    Returns a note about ranks that are not compared with each other; empty if all are."""
    sets = {
        rank: np.unique(np.frombuffer(keys[rank], dtype=np.int64)) for rank in sorted(directories)
    }
    groups = _groups(sets)
    for group in groups:
        strangers = _strangers(group)
        others = {rank: own for rank, own in group.items() if rank not in strangers}
        union = _union(others)
        for rank, own in group.items() if not _are_stages([*group.values()]) else ():
            lacking = np.setdiff1d(union, own, assume_unique=True)
            if len(lacking):
                some = frozenset(lacking[:_NAMED].tolist())
                which = ", ".join(sorted({name for other in group for name in names(other, some)}))
                detail = (
                    f"lacks {len(lacking)} of {len(union)} kernels that other ranks have "
                    f"({which}): {_waiting(others, union)}"
                )
                if len(own) and len(lacking) == len(_others(group, rank)):
                    recorded = differs(rank)
                    because = f"in its .info {recorded}" if recorded else _CAUSES
                    detail = (
                        f"has no kernel that another rank has, and lacks theirs ({which}): "
                        f"{because}; {_waiting(others, union)}"
                    )
                ledger.add(Check.RANKS_AGREE, directories[rank], detail)
    union = _union(sets)
    # A host may have only some ranks of a job.
    for rank in sorted({*range(min(sets), max(sets))} - sets.keys()):
        near = re.sub(rf"(?<!\d){min(sets)}(?!\d)", str(rank), directories[min(sets)], count=1)
        detail = f"rank {rank} has no directory: {_waiting(sets, union)}"
        ledger.add(Check.RANKS_AGREE, near, detail)
    if len(groups) == 1:
        return ""
    apart = "; ".join(", ".join(map(str, group)) for group in groups)
    return f"ranks {apart} have other kernels: stages of a pipeline, or not one job"


def _union(sets: Mapping[int, Keys]) -> Keys:
    return np.unique(np.concatenate([*sets.values()]))


def _others(sets: Mapping[int, Keys], rank: int) -> Keys:
    return _union({other: own for other, own in sets.items() if other != rank})


def _strangers(sets: Mapping[int, Keys]) -> frozenset[int]:
    """The ranks that have no kernel in common with any other, where most ranks have some: the
    others do not lack theirs."""
    alone = {
        rank
        for rank, own in sets.items()
        if len(own) and not len(np.intersect1d(own, _others(sets, rank)))
    }
    return frozenset(alone if 2 * len(alone) < len(sets) else ())


def _groups(sets: Mapping[int, Keys]) -> list[dict[int, Keys]]:
    """The groups of ranks that have most kernels in common, of several ranks each; one group if
    there are none such."""
    groups: list[dict[int, Keys]] = []
    for rank, own in sets.items():
        for group in groups:
            union = _union(group)
            if 2 * len(np.intersect1d(union, own)) > len(np.union1d(union, own)):
                group[rank] = own
                break
        else:
            groups.append({rank: own})
    return groups if all(len(each) > 1 for each in groups) else [dict(sets)]


def _are_stages(ranks: Sequence[Keys]) -> bool:
    """Whether ranks are the stages of a pipeline: blocks of as many neighbours each, with the same
    kernels, and no block has all that another one has. What was deleted makes no such blocks."""
    same = [np.array_equal(own, before) for before, own in pairwise(ranks)]
    begins = [0, *(at for at, each in enumerate(same, 1) if not each)]
    size = begins[1] if len(begins) > 1 else len(ranks)
    return (
        size > 1
        and begins == [*range(0, len(ranks), size)]
        and not len(ranks) % size
        and all(len(np.setdiff1d(ranks[a], ranks[b])) for a, b in permutations(begins, 2))
    )


def _waiting(sets: Mapping[int, Keys], union: Keys) -> str:
    """Return which ranks wait at the next start, and for how long."""
    whole = [str(rank) for rank, own in sets.items() if len(own) == len(union)]
    who = f"ranks {', '.join(whole[:8])}" + (" ..." if len(whole) > 8 else "")
    who = who if len(whole) > 1 else f"rank {whole[0]}" if whole else "the others"
    return (
        f"at the next start {who} will wait until it has compiled them, and fail after {TIMEOUT} "
        f"({SHORTEST_WAIT} s unless it is set; newer MindSpore sets 600)"
    )


def compare_objects(
    ledger: Ledger, directories: Mapping[int, str], kernels: Mapping[int, RankKernels], names: Names
) -> tuple[int, int]:
    """Report kernels that differ from rank to rank. Returns how many kernels are the same, and the
    bytes that one copy of each would save."""
    ranks = sorted(kernels)
    keys = _joined([kernels[rank].whole for rank in ranks])
    owners = np.repeat(ranks, [len(kernels[rank].whole) for rank in ranks])
    objects = _joined([kernels[rank].objects for rank in ranks])
    sizes = _joined([kernels[rank].sizes for rank in ranks])
    order = np.argsort(keys, kind="stable")
    keys, owners, objects, sizes = (each[order] for each in (keys, owners, objects, sizes))
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    other = objects[again] != objects[again - 1]
    differing = again[other]
    for rank in np.unique(owners[differing]).tolist():
        mine = differing[owners[differing] == rank]
        which = ", ".join(names(rank, frozenset(keys[mine[:_NAMED]].tolist())))
        detail = (
            f"{len(mine)} of its kernels are not those of another rank, under the same names "
            f"({which}): the ranks do not run the same code"
        )
        ledger.add(Check.RANK_DUPLICATES, directories[rank], detail, int(sizes[mine].sum()))
    same = again[~other]
    return len(same), int(sizes[same].sum())


def compare_contents(
    ledger: Ledger, directories: Mapping[int, str], folders: Mapping[int, KernelFolder]
) -> None:
    """Report caches of one job whose entries of one name have other objects than the first card's:
    equal parameters have one kernel, so at most one of them is that of a fresh compile."""
    first, *others = sorted(folders)
    for card in others:
        names = [{*folders[each].keys} for each in (first, card)]
        bytes_of = [{*folders[each].contents} for each in (first, card)]
        broken = sum(len(a) - len(b) for a, b in zip(names, bytes_of, strict=True))
        differing = len(names[0] & names[1]) - len(bytes_of[0] & bytes_of[1]) - broken
        if differing > 0:
            detail = (
                f"{differing} of its kernels are not those of card {first}, under the same names: "
                "at most one of two is that of a fresh compile"
            )
            ledger.add(Check.RANK_DUPLICATES, directories[card], detail)


def _joined(parts: Iterable[array[int]]) -> Keys:
    return np.concatenate([np.frombuffer(part, dtype=np.int64) for part in parts])
