"""What document M promises about incremental build and ranks, as pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

from pytest_ascendcache.operators import OperatorSpec

TIMEOUT = "HCCL_CONNECT_TIMEOUT"
"""The variable for the time that ranks wait for each other, in seconds."""

SHORTEST_WAIT, LONGEST_WAIT = 120, 7200
"""The range of this time in seconds. Source: facts ``mindspore-incremental`` section 1.8."""

LONGEST_SURE_RANK = 5
"""Digits of the longest rank id that no toolchain has a reason to refuse."""

SUFFIXES = (".o", ".json", ".info")
"""The suffixes of a kernel's files (document M, overview)."""


class Phase(str, Enum):
    """Whether a network is run for training or inference. The two do not share kernels."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True)
class Scenario:
    """The scenario of a run. According to document M, different scenarios do not share kernels."""

    several_cards: bool = False
    phase: Phase = Phase.TRAINING


def kernel_meta(environment: Mapping[str, str], work: PurePath) -> PurePath:
    """The directory of a rank's kernels, by default below the working directory ``work``."""
    base = work / environment.get("MS_COMPILER_CACHE_PATH", "")
    return base / f"rank_{environment.get('RANK_ID') or '0'}" / "kernel_meta"


def expected_compiles(
    operators: Iterable[OperatorSpec],
    scenario: Scenario,
    kept: Collection[tuple[OperatorSpec, Scenario]],
) -> frozenset[OperatorSpec]:
    """The distinct operators, whatever their names, that a run has to compile. ``kept`` are those
    on disk, each with the scenario it was compiled in."""
    known = {(operator.named(""), where) for operator, where in kept}
    wanted = {operator.named("") for operator in operators}
    return frozenset(each for each in wanted if (each, scenario) not in known)


def is_rank_id(text: str, size: int | None = None) -> bool:
    """Whether a text is a valid rank: a whole number from 0, below ``size`` if that is known, or
    nothing for 0; without leading zeros, because it becomes part of a directory's name."""
    if not text:
        return True
    number = text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
    return number and (size is None or int(text) < size)


def is_other_spelling(text: str) -> bool:
    """Whether a text is a number with leading zeros. Document M leaves it open: it may be refused,
    or get a directory of exactly this name, but not that of the number."""
    return text.isascii() and text.isdigit() and not is_rank_id(text)
