"""How much slower the machine's load makes this process.

A short measurement does not predict a long run while other processes compete for the processors:
the kernel serves first who has slept, and computing processes share. Linux counts how long a
process has computed and how long it has waited for a processor.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_COUNTS = Path("/proc/self/schedstat")
_USED = slice(11, 15)
"""Fields of ``/proc/PID/stat`` behind the name: user and system time of the process, then of its
children."""

_TOO_SHORT = 0.02
"""Processor seconds too few to tell anything: one clock tick of another process is a fifth of
that."""


class Computed(NamedTuple):
    """Seconds in which this process had a processor, and in which it was ready and waited for
    one."""

    used: float = 0.0
    waited: float = 0.0

    @property
    def strain(self) -> float:
        """How many times as long work took as on a free processor; 1 if that cannot be told."""
        if self.used < _TOO_SHORT:
            return 1.0
        return 1.0 + max(0.0, self.waited) / self.used


def used_by(process: int) -> float:
    """Processor seconds of another process and the children it has waited for, in steps of a clock
    tick; 0 if the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(each) for each in fields[_USED]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def computed() -> Computed:
    """What the main thread of this process has had since it began; zeros if the system does not
    count."""
    try:
        used, waited = _COUNTS.read_text(encoding="ascii").split()[:2]
        return Computed(int(used) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return Computed()
