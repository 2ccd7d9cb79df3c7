"""What ranks say to each other when they meet: JSON objects, one a line."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

from pytest_ascendcache.reference.errors import AtcError

_LINE_LIMIT = 65_536
"""Bytes; what sends longer lines is none of our ranks."""

Message = dict[str, Any]


def gang_failed(reason: str) -> AtcError:
    """The error of a rank that ends because another has failed."""
    return AtcError("EI0014", f"The ranks cannot go on together. Reason: {reason.rstrip('.')}.")


def failure_message(error: AtcError) -> Message:
    return {"code": error.code, "failed": error.args[0]}


class Line:
    """A connection that carries JSON objects, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""
        connection.setblocking(False)

    def send(self, message: Message) -> None:
        """Say something; somebody who has gone does not hear it."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """What has arrived; ``None`` where the other side has gone, or is none of ours.

        What it said before it went comes first.
        """
        try:
            chunk = self.connection.recv(_LINE_LIMIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._received += chunk
        *lines, self._received = self._received.split(b"\n")
        if not chunk or len(self._received) > _LINE_LIMIT:
            return None
        try:
            messages = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            return None
        return messages if all(isinstance(each, dict) for each in messages) else None

    def close(self) -> None:
        """End the connection."""
        self.connection.close()
