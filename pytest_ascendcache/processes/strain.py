"""How much longer work takes than on free processors, told by how this process fared itself.

A short measurement says little of a long run where other processes use the machine too: who has
slept is served first, who computes has to share. Linux counts how long a process computed and how
long it waited for a processor meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_COUNTS = Path("/proc/self/schedstat")
_USED = slice(11, 15)
"""Fields of a process behind its name: what it used itself and in the kernel, and its children."""

_TOO_SHORT = 0.02
"""Seconds of a processor that say nothing: a clock tick of another process is a fifth of that."""


class Computed(NamedTuple):
    """Seconds this process had a processor, and seconds it was ready and had none."""

    used: float = 0.0
    waited: float = 0.0

    @property
    def strain(self) -> float:
        """How many times as long work took as on a free processor; 1 where that cannot be told."""
        if self.used < _TOO_SHORT:
            return 1.0
        return 1.0 + max(0.0, self.waited) / self.used


def used_by(process: int) -> float:
    """Seconds of processors that another process used, with those that it has waited for, in steps
    of a clock tick; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(each) for each in fields[_USED]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def computed() -> Computed:
    """What this process (its main thread) had of the processors since it began; nothing where the
    system does not count it."""
    try:
        used, waited = _COUNTS.read_text(encoding="ascii").split()[:2]
        return Computed(int(used) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return Computed()
