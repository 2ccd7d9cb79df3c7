"""An xdist worker's line to the hub in the controller: an execnet channel that came with the
worker's input. No port, no server, no shared file system; its end means that the other side died.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pytest

from pytest_ascendcache.ranks.gang import Reply

INPUT = "ascend_gangs"
"""Where a worker finds its channel in ``config.workerinput``."""


class Channel(Protocol):
    """What is used of ``execnet.Channel``."""

    def send(self, item: object) -> None: ...

    def receive(self) -> Any: ...


class ChannelRendezvous:
    """See :class:`~pytest_ascendcache.ranks.rank.Rendezvous`; the hub is in the controller."""

    def __init__(self, channel: Channel, gang: str, rank: int) -> None:
        self._channel = channel
        self._gang = gang
        self._rank = rank

    def enter(self, payload: str) -> Reply:
        """See :class:`Rendezvous`."""
        try:
            self._channel.send(("enter", self._gang, self._rank, payload))
            payloads, why, cause = self._channel.receive()
        except (OSError, EOFError):
            return Reply(self._rank, why=f"gang {self._gang} aborted: the controller is gone")
        return Reply(self._rank, None if payloads is None else tuple(payloads), why, cause)

    def leave(self, outcome: str, message: str) -> None:
        """See :class:`Rendezvous`."""
        with contextlib.suppress(OSError):  # the controller is gone, and this worker soon
            self._channel.send(("leave", self._gang, self._rank, outcome, message))


def channel_of(config: pytest.Config) -> Channel | None:
    """The channel of a worker that plays one of several cards."""
    given: Mapping[str, Any] = getattr(config, "workerinput", {})
    channel: Channel | None = given.get(INPUT)
    return channel if given.get("workercount", 1) > 1 else None


def announce(channel: Channel, gangs: Mapping[str, Sequence[str]], problems: Sequence[str]) -> None:
    """Tell the controller which of the collected tests are ranks of which gang.

    Sent before the collection itself, on the same connection: it is known when that arrives.
    ``problems`` make the run a usage error, before anything runs. The name of the worker's host
    goes with them: messages name a worker behind ssh or a socket by it.
    """
    ranks = {name: list(ids) for name, ids in gangs.items()}
    channel.send(("gangs", ranks, list(problems), socket.gethostname()))
