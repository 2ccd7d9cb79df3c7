"""A rank as its test sees it: its number, its environment, and meeting the other ranks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_ascendcache.ranks.gang import ENDING, SKIPPED, Reply


class GangAborted(Exception):
    """Another rank failed or was lost, so this one cannot go on.

    ``cause`` is the other rank's outcome, or empty if it has none.
    """

    def __init__(self, why: str, cause: str = "") -> None:
        super().__init__(why)
        self.cause = cause


class RankLost(Exception):
    """A rank ended before it reported the outcome of its test."""


class Rendezvous(Protocol):
    """A rank's connection to the hub of its gang."""

    def enter(self, payload: str) -> Reply:
        """Wait until all ranks have entered or the gang is aborted."""

    def leave(self, outcome: str, message: str) -> None:
        """Report this rank's outcome. It comes to no further rendezvous."""


def meet(rendezvous: Rendezvous, payload: str) -> list[str]:
    """Exchange payloads with all ranks. Returns them in the order of ranks.

    Raises ``GangAborted`` if a rank failed, was lost, or ended without coming, and
    ``pytest.skip.Exception`` if a rank skipped, because the others cannot run the test either.
    """
    reply = rendezvous.enter(payload)
    if reply.payloads is not None:
        return list(reply.payloads)
    if reply.cause == SKIPPED:
        raise pytest.skip.Exception(reply.why)
    raise GangAborted(reply.why, reply.cause)


def any_rank(rendezvous: Rendezvous, mine: bool) -> bool:
    """Whether ``mine`` is true of any rank of a gang whose test has passed in this one.

    True as well if another rank did not pass: its outcome counts then.
    """
    payloads = rendezvous.enter(f"{ENDING}{json.dumps(mine)}").payloads
    return payloads is None or f"{ENDING}true" in payloads


@dataclass(frozen=True)
class Rank:
    """One rank of a gang.

    ``directory`` is shared by the gang's ranks on one host. ``environment`` has the variables that
    a launcher such as ``msrun`` sets for this rank. They are in ``os.environ`` while the test runs;
    pass them to toolchains, which start with a clean environment.
    """

    rank: int
    size: int
    directory: Path = field(repr=False)
    environment: dict[str, str] = field(repr=False)
    _rendezvous: Rendezvous = field(repr=False)
    note: Callable[[str], None] = field(default=lambda _: None, repr=False, compare=False)
    """Called with ``enter`` and ``leave`` around each rendezvous."""

    def barrier(self) -> None:
        """Wait for all other ranks.

        Raises ``GangAborted`` as soon as another rank has failed, was lost, or has ended.
        """
        self._meet("null")

    def gather(self, payload: Any) -> list[Any]:
        """Wait for all other ranks. Returns every rank's payload, in the order of ranks.

        Raises ``TypeError`` if JSON cannot represent the payload, and ``GangAborted`` as soon as
        another rank has failed, was lost, or has ended.
        """
        try:
            text = json.dumps(payload)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"rank {self.rank} gathers {payload!r}, which JSON cannot carry ({error}); "
                "gather numbers, strings, lists and dictionaries."
            ) from None
        return [json.loads(each) for each in self._meet(text)]

    def _meet(self, payload: str) -> list[str]:
        self.note("enter")
        try:
            return meet(self._rendezvous, payload)
        finally:
            self.note("leave")


def join_gang(rendezvous: Rendezvous, rank: int, size: int, directory: Path) -> Rank:
    """Hold the first rendezvous, where ranks learn which others are on the same host.

    ``directory`` is this rank's offer. Each host uses the one of its lowest rank, and the others
    are removed.
    """
    offers = [
        json.loads(each)
        for each in meet(rendezvous, json.dumps({"host": this_host(), "directory": str(directory)}))
    ]
    here = [each for each in range(size) if offers[each]["host"] == this_host()]
    shared = Path(offers[here[0]]["directory"])
    if shared != directory:
        directory.rmdir()
    return Rank(rank, size, shared, rank_environment(rank, size, here), rendezvous)


def rank_environment(rank: int, size: int, on_this_host: Sequence[int]) -> dict[str, str]:
    """The variables that MindSpore's and torch's launchers set for a rank.

    The device is the rank's index among the ranks of its host. Source: facts
    ``mindspore-incremental`` section 1, ``static-kernel`` section 4.1.
    """
    device = str(on_this_host.index(rank))
    return {
        "RANK_ID": str(rank),
        "RANK_SIZE": str(size),
        "DEVICE_ID": device,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": device,
        "LOCAL_WORLD_SIZE": str(len(on_this_host)),
    }


def this_host() -> str:
    """A text that distinguishes this host, or this container, from all others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot} {os.getuid()}"
