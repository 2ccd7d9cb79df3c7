"""What document M says of incremental build and ranks, as pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

from pytest_ascendcache.operators import OperatorSpec

TIMEOUT = "HCCL_CONNECT_TIMEOUT"
"""The variable that says how long ranks wait for each other, in seconds."""

SHORTEST_WAIT, LONGEST_WAIT = 120, 7200
"""The vendor's range of it, in seconds. Source: facts ``mindspore-incremental`` section 1.8."""

SUFFIXES = (".o", ".json", ".info")
"""The files of one kernel (document M, overview)."""


class Phase(str, Enum):
    """What a network is run for; caches of one are not those of the other."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True)
class Scenario:
    """What document M says keeps caches apart: the cards, and what the network is run for."""

    several_cards: bool = False
    phase: Phase = Phase.TRAINING


def kernel_meta(environment: Mapping[str, str], work: PurePath) -> PurePath:
    """Where a rank's kernels are: ``rank_<RANK_ID>/kernel_meta``, ``rank_0`` where it is empty,
    below ``MS_COMPILER_CACHE_PATH`` or, without it, the working directory."""
    base = work / environment.get("MS_COMPILER_CACHE_PATH", "")
    return base / f"rank_{environment.get('RANK_ID') or '0'}" / "kernel_meta"


def expected_compiles(
    operators: Iterable[OperatorSpec],
    scenario: Scenario,
    kept: Collection[tuple[OperatorSpec, Scenario]],
) -> frozenset[OperatorSpec]:
    """The different operators a run has to compile: those that are new or changed.

    ``kept`` are operators with the scenario they were compiled in. Names decide nothing.
    """
    known = {(operator.named(""), where) for operator, where in kept}
    wanted = {operator.named("") for operator in operators}
    return frozenset(each for each in wanted if (each, scenario) not in known)


def is_rank_id(text: str, size: int | None = None) -> bool:
    """Whether a text names a rank: a whole number of 0 or more, below ``size`` where known.

    Empty is the default, rank 0. A number has one spelling, without leading zeros, because it
    becomes the name of a directory.
    """
    if not text:
        return True
    number = text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
    return number and (size is None or int(text) < size)


def is_other_spelling(text: str) -> bool:
    """Whether a text is a rank's number with leading zeros. Document M does not say whether that
    is a rank; it may be refused or have a directory of its own name, but not the number's."""
    return text.isascii() and text.isdigit() and not is_rank_id(text)
