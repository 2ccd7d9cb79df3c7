"""An xdist worker's connection to the hub in the controller: an execnet channel.

The channel comes with the worker's input, so it needs no port and no shared file system. It closes
when the other side dies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from pytest_ascendcache.ranks.gang import Reply

INPUT = "ascend_gangs"
"""The key of the channel in a worker's ``config.workerinput``."""


class Channel(Protocol):
    """The methods of ``execnet.Channel`` that are used."""

    def send(self, item: object) -> None: ...

    def receive(self) -> Any: ...


class ChannelRendezvous:
    """A :class:`~pytest_ascendcache.ranks.rank.Rendezvous` whose hub is in the controller."""

    def __init__(self, channel: Channel, gang: str, rank: int) -> None:
        self._channel = channel
        self._gang = gang
        self._rank = rank

    def enter(self, payload: str) -> Reply:
        try:
            self._channel.send(("enter", self._gang, self._rank, payload))
            payloads, why, cause = self._channel.receive()
        except (OSError, EOFError):
            return Reply(self._rank, why=f"gang {self._gang} aborted: the controller is gone")
        return Reply(self._rank, None if payloads is None else tuple(payloads), why, cause)

    def leave(self, outcome: str, message: str) -> None:
        with contextlib.suppress(OSError):  # the controller is gone, and this worker will end soon
            self._channel.send(("leave", self._gang, self._rank, outcome, message))


def channel_of(config: pytest.Config) -> Channel | None:
    """A worker's channel, or None unless this process is one of several workers."""
    settings: Mapping[str, Any] = getattr(config, "workerinput", {})
    channel: Channel | None = settings.get(INPUT)
    return channel if settings.get("workercount", 1) > 1 else None
