"""An xdist worker's connection to the hub in the controller: an execnet channel.

The channel comes with the worker's input, so it needs no port and no shared file system. It closes
when the other side dies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.ranks.gang import Reply

if TYPE_CHECKING:
    from execnet import Channel

INPUT = "ascend_gangs"
"""The key of the channel in a worker's ``config.workerinput``."""


@dataclass(frozen=True)
class ChannelRendezvous:
    """A :class:`~pytest_ascendcache.ranks.rank.Rendezvous` whose hub is in the controller."""

    channel: Channel
    gang: str
    rank: int

    def enter(self, payload: str) -> Reply:
        try:
            self.channel.send(("enter", self.gang, self.rank, payload))
            payloads, why, cause = self.channel.receive()
        except (OSError, EOFError):
            return Reply(self.rank, why=f"gang {self.gang} aborted: the controller is gone")
        return Reply(self.rank, None if payloads is None else tuple(payloads), why, cause)

    def leave(self, outcome: str, message: str) -> None:
        with contextlib.suppress(OSError):  # the controller is gone, and this worker will end soon
            self.channel.send(("leave", self.gang, self.rank, outcome, message))


def channel_of(config: pytest.Config) -> Channel | None:
    """A worker's channel, or None unless this process is one of several workers."""
    settings: Mapping[str, Any] = getattr(config, "workerinput", {})
    channel: Channel | None = settings.get(INPUT)
    return channel if settings.get("workercount", 1) > 1 else None
