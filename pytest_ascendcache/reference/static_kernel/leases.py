"""The holders of an installed package: ``<package>/leases/`` contains an empty file per holder.

A holder is a process, identified by its number and start time, because numbers are reused. A
package stays installed as long as a living process holds it. A package that a user installs in a
terminal has no holder, so it can be uninstalled at any time. Processes of other nodes count as
living, since this node cannot look.
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
"""The variable for the number of the process that holds what is installed; 0 means none. By
default that is the calling process."""

_NAME = re.compile(
    r"(?P<host>[0-9a-f]{8})\.(?P<boot>[0-9a-f-]+)\.(?P<space>\d+)\.(?P<pid>\d+)\.(?P<start>\d+)"
)


@dataclass(frozen=True)
class Holder:
    """A process that holds a package.

    Its number is unique within ``host`` (a digest of the node's name), ``boot`` id and ``space``
    (pid namespace). ``start`` is its start time in clock ticks since the boot.
    """

    host: str
    boot: str
    space: int
    pid: int
    start: int

    @property
    def name(self) -> str:
        """The file name of its lease."""
        return f"{self.host}.{self.boot}.{self.space}.{self.pid}.{self.start}"

    @classmethod
    def parse(cls, name: str) -> Holder | None:
        """The holder of the lease with this file name, or ``None`` if that is not a lease's."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        numbers = (int(match[name]) for name in ("space", "pid", "start"))
        return cls(match["host"], match["boot"], *numbers)

    @classmethod
    def of(cls, pid: int) -> Holder | None:
        """The process of this node with this number, or ``None`` if there is none."""
        state = _state(pid)
        return None if state is None else cls(*_here(), pid, int(state[19]))

    def lives(self) -> bool:
        """Whether the process lives. One of another node or container is assumed to live."""
        host, boot, space = _here()
        if self.boot != boot:
            return self.host != host
        if self.space != space:
            return True
        state = _state(self.pid)
        return state is not None and state[0] not in "ZX" and int(state[19]) == self.start


def caller(environ: Mapping[str, str]) -> Holder | None:
    """The process that holds what is installed now: the caller, unless it is a user's shell."""
    text = environ.get(VARIABLE, "")
    pid = int(text) if text.isascii() and text.isdigit() else os.getppid()
    state = _state(pid)
    if pid == 0 or state is None:
        return None
    session, terminal = int(state[3]), int(state[4])
    if not text and session == pid and terminal != 0:
        return None
    return Holder.of(pid)


def holding(leases: Path, environ: Mapping[str, str]) -> Holder | None:
    """The process whose lease an uninstall gives up: this one, if it has a lease, else the caller.

    A shell may turn itself into its last command, which then has the number of the shell.
    """
    own = Holder.of(os.getpid())
    return own if own is not None and (leases / own.name).exists() else caller(environ)


def _here() -> tuple[str, str, int]:
    host = hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:8]
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return host, boot, Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return host, "0", 0


def _state(pid: int) -> list[str] | None:
    """The fields of ``/proc/<pid>/stat`` from the third on, or ``None`` without such a process."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
