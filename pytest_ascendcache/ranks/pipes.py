"""Messages between a rank and its keeper: JSON values, one per line, over a socket pair."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from pytest_ascendcache.ranks.gang import Reply

_CHUNK = 65536


class Line:
    """One end of the connection. ``send`` and ``receive`` block, ``pending`` does not."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._unread = b""

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Send a message.

        Raises ``OSError`` if the other end is gone or does not read within ``timeout`` seconds.
        """
        self.socket.settimeout(timeout)
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        """The next message. Raises ``EOFError`` if the other end is gone."""
        self.socket.settimeout(None)
        while b"\n" not in self._unread:
            chunk = self.socket.recv(_CHUNK)
            if not chunk:
                raise EOFError
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def pending(self) -> tuple[list[Any], bool]:
        """The messages received so far, and whether the other end is gone."""
        self.socket.setblocking(False)
        chunks = [self._unread]
        ended = False
        while True:
            try:
                chunk = self.socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                chunk = b""
            if not chunk:
                ended = True
                break
            chunks.append(chunk)
        *lines, self._unread = b"".join(chunks).split(b"\n")
        return [json.loads(line) for line in lines], ended

    def close(self) -> None:
        self.socket.close()


class PipeRendezvous:
    """A :class:`~pytest_ascendcache.ranks.rank.Rendezvous` whose hub is this rank's keeper."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._owner = os.getpid()

    def enter(self, payload: str) -> Reply:
        self._check_owner()
        self._line.send(["enter", payload])
        kind, *rest = self._line.receive()
        if kind == "go":
            return Reply(-1, tuple(rest[0]))
        return Reply(-1, why=rest[0], cause=rest[1])

    def leave(self, outcome: str, message: str) -> None:
        self._check_owner()
        self._line.send(["leave", outcome, message])

    def _check_owner(self) -> None:
        # Two processes that speak as one rank would take each other's answers.
        if os.getpid() != self._owner:
            raise RuntimeError("only a rank's own process can meet other ranks, not a child of it")
