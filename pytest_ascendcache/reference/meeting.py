"""Connections between processes: one listens, the others connect, and they exchange JSON lines."""

from __future__ import annotations

import contextlib
import errno
import json
import select
import socket
import struct
import time
from typing import Any

_LINE_LIMIT = 1 << 24
"""The most bytes of one line. A thousand ranks that each send a path stay below it."""

_CHUNK = 1 << 16
"""How many bytes are received at once."""

_SENDING = 5.0
"""Seconds that the other side may take to make room for a message."""

_RETRY = 0.01
"""Seconds between attempts to connect."""

Message = dict[str, Any]


class MeetingLine:
    """A connection that carries JSON objects, one per line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""
        connection.setblocking(False)

    def send(self, message: Message) -> None:
        """Send a complete message, unless the other side has gone or does not read."""
        try:
            self.connection.settimeout(_SENDING)
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # Half of it may be sent already. Whatever followed would look like the other half.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
        finally:
            self.connection.setblocking(False)

    def receive(self) -> list[Message] | None:
        """The messages that have arrived, or ``None`` if the other side has gone or is no rank.

        Messages that it sent before it went come first.
        """
        try:
            chunk = self.connection.recv(_CHUNK)
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
    """A socket that listens at an address, even right after another socket listened there.

    Raises ``OSError`` if the address cannot be used.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        # A gang that starts right after another must not wait until old connections expire.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


class MeetingHub:
    """The side that listens, with the lines that were opened to it, by descriptor."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.lines: dict[int, MeetingLine] = {}

    def ready(self, deadline: float | None, *more: int) -> list[int]:
        """Accept new lines, and return the readable descriptors of lines and of ``more``.

        The list is empty once ``deadline`` (``time.monotonic``) has passed.
        """
        listening = self._listening.fileno()
        ready = poll([listening, *self.lines, *more], deadline)
        if listening in ready:
            with contextlib.suppress(OSError):
                connection, _ = self._listening.accept()
                self.lines[connection.fileno()] = MeetingLine(connection)
        return ready

    def tell(self, message: Message) -> None:
        """Send a message over every line."""
        for line in self.lines.values():
            line.send(message)

    def close(self, grace: float = 0.0) -> None:
        """End every line, and stop listening.

        The other sides get up to ``grace`` seconds to read their last messages and to close their
        ends: closing a connection with unread data resets it, and a reset discards what was sent
        last.
        """
        deadline = time.monotonic() + grace
        reading = dict(self.lines) if grace else {}
        for line in reading.values():
            with contextlib.suppress(OSError):
                line.connection.shutdown(socket.SHUT_WR)
        while reading and (ready := poll(list(reading), deadline)):
            for each in ready:
                if reading[each].receive() is None:
                    del reading[each]
        for line in self.lines.values():
            line.close()
        self.lines.clear()
        self._listening.close()


def poll(descriptors: list[int], deadline: float | None) -> list[int]:
    """Wait until ``deadline`` for descriptors that can be read or have been closed."""
    waiting = select.poll()
    for each in descriptors:
        waiting.register(each, select.POLLIN)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    return [descriptor for descriptor, _ in waiting.poll(left)]


def connect(host: str, port: int, deadline: float) -> socket.socket | None:
    """Connect to a process that may not listen yet; ``None`` once ``deadline`` has passed.

    Raises ``OSError`` if the address cannot be reached.
    """
    while (left := deadline - time.monotonic()) > 0:
        connection = _try(host, port, left)
        if connection is not None:
            return connection
        time.sleep(min(_RETRY, left))  # no event reports that another process starts to listen
    return None


def _try(host: str, port: int, timeout: float) -> socket.socket | None:
    try:
        connection = socket.create_connection((host, port), timeout=timeout)
    except OSError as error:
        if error.errno not in _NOBODY_LISTENS:
            raise
        return None
    # A connection to a port at which nobody listens can connect to itself.
    if connection.getsockname() != connection.getpeername():
        return connection
    # A reset, after which rank 0 can have the port at once.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    return None


_NOBODY_LISTENS = (
    None,  # the errno of a connection's timeout
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
)
