"""A run's settings from the environment: rank, number of ranks, meeting address, directory.

Source: document M, common questions; facts ``mindspore-incremental`` sections 1.1 and 1.8. Size and
address are set as MindSpore's users set them: ``RANK_SIZE`` with a rank table, ``MS_WORKER_NUM``
with a dynamic cluster, whose ranks meet at ``MS_SCHED_HOST`` and ``MS_SCHED_PORT``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.reference.errors import AtcError

DEFAULT_TIMEOUT = 120
"""Seconds that the ranks wait for each other unless ``HCCL_CONNECT_TIMEOUT`` is set."""

TIMEOUTS = (120, 7200)
"""Lowest and highest valid ``HCCL_CONNECT_TIMEOUT`` in seconds."""

SECOND = "ASCENDCACHE_TRAIN_SECOND"
"""The variable that scales waiting: the real length in seconds of one second. With a small value
tests rehearse waits of minutes in a moment. MindSpore has no such variable."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True)
class GangSettings:
    """This rank's gang: its size, and the address where its ranks meet.

    ``size`` is ``None`` if no variable sets it: a single card. ``timeout`` is in seconds, each of
    which lasts ``second`` real seconds.
    """

    rank: int
    size: int | None
    host: str
    port: int
    timeout: int
    second: float

    @property
    def several(self) -> bool:
        """Whether the gang has more than one rank."""
        return self.size is not None and self.size > 1

    @property
    def others(self) -> frozenset[int]:
        """All ranks except this one."""
        return frozenset(range(self.size or 1)) - {self.rank}


@dataclass(frozen=True)
class RankSurroundings:
    """All settings of a run from its environment. ``device`` is the card's number, ``versions`` are
    those of the installation."""

    gang: GangSettings
    base: Path
    device: int
    versions: str = ""


class SurroundingsPolicy:
    """Reads and checks the environment."""

    def read(self, environ: Mapping[str, str]) -> RankSurroundings:
        """Read all settings."""
        rank, size = self.rank(environ), self.size(environ)
        if size is not None and rank >= size:
            raise invalid_variable(
                "RANK_ID", rank, f"there are {size} ranks; write a number from 0 to {size - 1}"
            )
        gang = GangSettings(
            rank=rank,
            size=size,
            host=environ.get("MS_SCHED_HOST", "") or "127.0.0.1",
            port=_number(environ, "MS_SCHED_PORT", 8118, 1, 65535),
            timeout=self.timeout(environ),
            second=self.second(environ),
        )
        device = _number(environ, "DEVICE_ID", 0, 0, 65535)
        return RankSurroundings(gang, self.base(environ), device)

    def rank(self, environ: Mapping[str, str]) -> int:
        """``RANK_ID``; 0 if it is unset or empty.

        Raises ``AtcError`` (EI0001) unless it is a plain number, because it becomes part of a
        path.
        """
        return _number(environ, "RANK_ID", 0, 0, 65535)

    def size(self, environ: Mapping[str, str]) -> int | None:
        """The number of ranks, or ``None`` if no variable sets it."""
        said = {
            name: _number(environ, name, 1, 1, 65536)
            for name in ("RANK_SIZE", "MS_WORKER_NUM")
            if environ.get(name)
        }
        if len(set(said.values())) > 1:
            raise invalid_variable(
                "RANK_SIZE",
                said["RANK_SIZE"],
                f"MS_WORKER_NUM says {said['MS_WORKER_NUM']}; set one of them, or both alike",
            )
        return next(iter(said.values()), None)

    def timeout(self, environ: Mapping[str, str]) -> int:
        """Seconds to wait for the other ranks."""
        text = environ.get("HCCL_CONNECT_TIMEOUT", "")
        if not text:
            return DEFAULT_TIMEOUT
        lowest, highest = TIMEOUTS
        if not _NUMBER.fullmatch(text) or not lowest <= int(text) <= highest:
            # The vendor's wording. Source: HCCL's documentation of EI0001.
            raise invalid_variable(
                "HCCL_CONNECT_TIMEOUT",
                text,
                f"it should be a number greater than or equal to {lowest}s and less than or "
                f"equal to {highest}s",
            )
        return int(text)

    def second(self, environ: Mapping[str, str]) -> float:
        """The real length of one second of waiting, in seconds."""
        text = environ.get(SECOND, "") or "1"
        try:
            second = float(text)
        except ValueError:
            second = math.nan
        if not 0 < second <= 1:
            raise invalid_variable(SECOND, text, "write true seconds above 0, 1 at most")
        return second

    def base(self, environ: Mapping[str, str]) -> Path:
        """The parent of all rank directories: ``MS_COMPILER_CACHE_PATH``, else the current one."""
        return Path(environ.get("MS_COMPILER_CACHE_PATH", "")).absolute()


def _number(environ: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text) or not lowest <= int(text) <= highest:
        raise invalid_variable(name, text, f"write a number from {lowest} to {highest}")
    return int(text)


def invalid_variable(name: str, value: object, reason: str) -> AtcError:
    """EI0001, the vendor's error for an environment variable. Long values are shortened."""
    shown = str(value) if len(str(value)) <= 60 else f"{str(value)[:57]}..."
    return AtcError(
        "EI0001", f"Environment variable [{name}] is invalid. Value [{shown}]. Reason: {reason}."
    )
