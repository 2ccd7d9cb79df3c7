"""The address at which the ranks of a gang meet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


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


@dataclass
class Attendance:
    """Which ranks of a gang of ``size`` were there, by the order in which they started and ended.

    A network may run only if every rank is there at once. A rank that left, or a second one of a
    number, never stands for another one.
    """

    size: int
    _times: list[tuple[int, int, int | None]] = field(default_factory=list)
    _now: int = 0

    def comes(self, rank: int) -> int:
        """Note that a rank starts. Returns its place in the list."""
        self._now += 1
        self._times.append((rank, self._now, None))
        return len(self._times) - 1

    def goes(self, place: int) -> None:
        """Note that a rank has ended."""
        self._now += 1
        rank, start, _ = self._times[place]
        self._times[place] = rank, start, self._now

    def never_met(self, place: int) -> set[int]:
        """The ranks that a rank lacked even when most of them were there."""
        _, start, end = self._times[place]
        moments = [at for _, at, _ in self._times if start <= at and (end is None or at < end)]
        return min((self._absent(at) for at in moments), key=len)

    def _absent(self, moment: int) -> set[int]:
        there = {
            rank
            for rank, start, end in self._times
            if start <= moment and (end is None or moment < end)
        }
        return set(range(self.size)) - there


ATTENDANCE: dict[str, Attendance] = {}
"""The gangs that meet at addresses of this process, by port."""


@contextmanager
def meeting_place(
    size: int, timeout: int | None = None, host: str = "127.0.0.1", *, elsewhere: bool = False
) -> Iterator[Address]:
    """Reserve an address on this machine while the ``with`` block lasts. The port is bound but
    nothing listens there, so rank 0, which reuses addresses, can. ``elsewhere`` says that other
    processes start ranks that meet there, so that attendance cannot be told."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, 0))
        port = reserved.getsockname()[1]
        if not elsewhere:
            ATTENDANCE[str(port)] = Attendance(size)
        try:
            yield Address(size, port, timeout, host)
        finally:
            ATTENDANCE.pop(str(port), None)
