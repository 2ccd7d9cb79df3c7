"""Where the ranks of a gang meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """Where a gang of ``size`` meets, and how long its ranks wait for each other, in seconds."""

    size: int
    port: int
    timeout: int | None = None
    host: str = "127.0.0.1"

    @property
    def environment(self) -> dict[str, str]:
        """The variables MindSpore's users set."""
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
    """An address that nobody else of this machine is given as long as this lasts.

    The port is bound but not listened at: rank 0, which reuses addresses, can listen there.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, 0))
        yield Address(size, reserved.getsockname()[1], timeout, host)
