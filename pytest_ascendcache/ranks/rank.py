"""One rank as a test sees it: its number, its environment, and meeting the others."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_ascendcache.ranks.gang import SKIPPED, Reply


class GangAborted(Exception):
    """Another rank failed or was lost, so that this one cannot go on.

    ``cause`` is the other rank's outcome; empty where it gave none.
    """

    def __init__(self, why: str, cause: str = "") -> None:
        super().__init__(why)
        self.cause = cause


class RankLost(Exception):
    """A rank ended before it could say how its test went."""


class Rendezvous(Protocol):
    """A rank's line to its gang's hub."""

    def enter(self, payload: str) -> Reply:
        """Wait until every rank has entered, or the gang is aborted."""

    def leave(self, outcome: str, message: str) -> None:
        """Tell how this rank ended; it comes to no further rendezvous."""


def meet(rendezvous: Rendezvous, payload: str) -> list[str]:
    """All ranks' payloads, in the order of ranks.

    Raises:
        GangAborted: where a rank failed, was lost, or ended without coming.
        pytest.skip.Exception: where a rank skipped: the others cannot do the test either.
    """
    reply = rendezvous.enter(payload)
    if reply.payloads is not None:
        return list(reply.payloads)
    if reply.cause == SKIPPED:
        raise pytest.skip.Exception(reply.why)
    raise GangAborted(reply.why, reply.cause)


@dataclass(frozen=True)
class Rank:
    """One rank of a gang.

    ``directory`` belongs to the gang: all ranks on a host share it, and each host has its own.
    ``environment`` is what a launcher such as ``msrun`` sets for this rank; it is in
    ``os.environ`` while the test runs, and is to be passed to toolchains, whose environment is
    a cleaned one.
    """

    rank: int
    size: int
    directory: Path = field(repr=False)
    environment: dict[str, str] = field(repr=False)
    _rendezvous: Rendezvous = field(repr=False)
    note: Callable[[str], None] = field(default=lambda _: None, repr=False, compare=False)
    """Is told of each ``enter`` and ``leave`` of a rendezvous."""

    def barrier(self) -> None:
        """Wait for all other ranks.

        Raises:
            GangAborted: at once, where one failed, was lost, or has ended.
        """
        self._meet("null")

    def gather(self, payload: Any) -> list[Any]:
        """Wait for all other ranks; what each of them brought, in the order of ranks.

        Raises:
            TypeError: where the payload is nothing JSON can carry.
            GangAborted: at once, where a rank failed, was lost, or has ended.
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
    """The first rendezvous: ranks start together, and learn who is on the same host.

    ``directory`` is this rank's offer; the lowest rank's on a host is taken, others are removed.
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
    """What MindSpore's and torch's launchers set for a rank.

    The device is the rank's place among those of its host. Source: facts
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
    """What tells this host, or this container on it, from others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot} {os.getuid()}"
