"""What ranks say to each other when they meet: JSON objects, one a line."""

from __future__ import annotations

import contextlib
import errno
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
        """Send a message; one that is gone does not get it."""
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


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens at an address, at once after another that did.

    Raises:
        OSError: where the address cannot be used.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        # A gang that starts right after another must not wait for old connections to fade.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def connect(host: str, port: int, timeout: float) -> socket.socket | None:
    """A connection to an address; ``None`` where nobody listens there yet.

    Raises:
        OSError: where the address is none that can be reached.
    """
    try:
        connection = socket.create_connection((host, port), timeout=timeout)
    except OSError as error:
        if error.errno not in _NOBODY_THERE:
            raise
        return None
    # A port that nobody listens at can connect to itself.
    if connection.getsockname() != connection.getpeername():
        return connection
    connection.close()
    return None


_NOBODY_THERE = (
    None,  # what a connection's own timeout raises
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
)
