"""The address at which the ranks of a gang meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """Where a gang of ``size`` meets, and how many seconds (``timeout``) its ranks wait for each
    other."""

    size: int
    port: int
    timeout: int | None = None
    host: str = "127.0.0.1"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that MindSpore's users set."""
        environment = {
            "RANK_SIZE": str(self.size),
            "MS_SCHED_HOST": self.host,
            "MS_SCHED_PORT": str(self.port),
        }
        if self.timeout is not None:
            environment["HCCL_CONNECT_TIMEOUT"] = str(self.timeout)
        return environment


@contextmanager
def meeting_place(
    size: int, timeout: int | None = None, host: str = "127.0.0.1"
) -> Iterator[Address]:
    """Reserve an address on this machine while the ``with`` block lasts. The port is bound but
    nothing listens there, so rank 0, which reuses addresses, can."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, 0))
        yield Address(size, reserved.getsockname()[1], timeout, host)
