"""The address at which the ranks of a gang meet."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


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


_ANY_PORT = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Between which ports the system chooses."""
_UNPRIVILEGED, _PORTS, _LAST_PORT = 10240, 8192, 65535
_ANY = 64
"""Ports that are asked of the system where it has all of them to choose from."""


@contextmanager
def meeting_place(
    size: int, timeout: int | None = None, host: str = "127.0.0.1", *, elsewhere: bool = False
) -> Iterator[Address]:
    """Reserve an address on this machine while the ``with`` block lasts: no other meeting place is
    there, and rank 0 can bind it, whether or not it reuses addresses. ``elsewhere`` says that other
    processes start ranks that meet there, so that attendance cannot be told."""
    with _reserved(host) as port:
        if not elsewhere:
            ATTENDANCE[str(port)] = Attendance(size)
        try:
            yield Address(size, port, timeout, host)
        finally:
            ATTENDANCE.pop(str(port), None)


@contextmanager
def _reserved(host: str) -> Iterator[int]:
    """A port that is free, and that the system gives to nobody who asks for any. A name without a
    file holds it against other sessions of all users, until their process ends."""
    low, high = _chosen_by_the_system()
    ports = [*range(max(_UNPRIVILEGED, low - _PORTS), low), *range(high + 1, _LAST_PORT + 1)]
    first = secrets.randbelow(len(ports) + 1)
    for asked in [*ports[first:], *ports[:first], *[0] * _ANY]:
        with socket.socket(socket.AF_UNIX) as held, socket.socket() as probe:
            try:
                probe.bind((host, asked))
                port = probe.getsockname()[1]
                held.bind(f"\0pytest-ascendcache-{port}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise
            probe.close()
            yield port
            return
    raise OSError(errno.EADDRINUSE, f"none of {len(ports) + _ANY} ports of {host} is free")


def _chosen_by_the_system() -> tuple[int, int]:
    """The first and last port that the system gives to who asks for any."""
    try:
        low, high = map(int, _ANY_PORT.read_text().split())
    except (OSError, ValueError):
        return 32768, 60999  # Linux's own
    return low, high
