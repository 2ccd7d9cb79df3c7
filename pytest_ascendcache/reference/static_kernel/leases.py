"""Who holds an installed package: ``<package>/leases/``, an empty file for each holder.

A holder is a process with the moment it started, so that another one with its number is not taken
for it. A package is removed when nobody who lives holds it. One that a person installs in a
terminal has no holder: it goes when it is uninstalled. Of a process of another node nobody here
can tell whether it lives, so it is taken to.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LEASES = "leases"
VARIABLE = "ASCENDCACHE_PACKAGE_HOLDER"
"""Number of the process that holds what is installed; 0 for nobody. Default: who calls."""

_NAME = re.compile(
    r"(?P<host>[0-9a-f]{8})\.(?P<boot>[0-9a-f-]+)\.(?P<space>\d+)\.(?P<pid>\d+)\.(?P<start>\d+)"
)


@dataclass(frozen=True)
class Holder:
    """A process: ``host`` (a digest of the node's name), ``boot`` and ``space`` (of process
    numbers) say where its number counts, ``start`` is when it started, in clock ticks since the
    boot."""

    host: str
    boot: str
    space: int
    pid: int
    start: int

    @property
    def name(self) -> str:
        """The name of its lease."""
        return f"{self.host}.{self.boot}.{self.space}.{self.pid}.{self.start}"

    @classmethod
    def parse(cls, name: str) -> Holder | None:
        """The holder a lease is named after, if it is a lease."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        numbers = (int(found[name]) for name in ("space", "pid", "start"))
        return cls(found["host"], found["boot"], *numbers)

    @classmethod
    def of(cls, pid: int) -> Holder | None:
        """A process of this node, if it is there."""
        state = _state(pid)
        return None if state is None else cls(*_here(), pid, int(state[19]))

    def lives(self) -> bool:
        """Whether it does. One of another node or container is taken to live: nobody can look."""
        host, boot, space = _here()
        if self.boot != boot:
            return self.host != host
        if self.space != space:
            return True
        state = _state(self.pid)
        return state is not None and state[0] not in "ZX" and int(state[19]) == self.start


def caller(environ: Mapping[str, str]) -> Holder | None:
    """Who holds what is installed now: the process that called, unless that is a person's shell."""
    text = environ.get(VARIABLE, "")
    pid = int(text) if text.isascii() and text.isdigit() else os.getppid()
    state = _state(pid)
    if pid == 0 or state is None:
        return None
    session, terminal = int(state[3]), int(state[4])
    if not text and session == pid and terminal != 0:
        return None
    return Holder.of(pid)


def _here() -> tuple[str, str, int]:
    host = hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:8]
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return host, boot, Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return host, "0", 0


def _state(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` from the third on."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
