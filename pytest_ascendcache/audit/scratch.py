"""Build scratch: where ATC and torch_npu work, which is no cache.

Each process compiles below ``kernel_meta/kernel_meta_<number>`` and removes that at its end; what a
process that was killed left, the next one removes that runs there. Source: facts
``cann-operator-cache`` section 3.4, ``field-evidence`` row S17.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from pytest_ascendcache.audit.entries import EntryJudge
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.limits import megabytes
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import PID_INFO

_TASK = re.compile(r"task_pid_(\d+)_\d+\.txt")
_KEPT = 10_000
"""The most files of one scratch directory that a plan removes by name."""

IGNORE = "kernel_meta/"
"""The line for version control."""


@dataclass
class Scratch(EntryJudge):
    """Looks for the owner of scratch; nothing in it is an entry, so nothing is judged.

    ``place`` is the absolute path, ``owners`` are process ids with the paths they recorded.
    """

    _: KW_ONLY
    place: str
    owners: dict[int, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    bytes: int = 0

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        self.bytes += info.st_size
        if len(self.files) <= _KEPT:
            self.files.append(folder.path(name))
        if (task := _TASK.fullmatch(name)) is not None:
            self.owners.setdefault(int(task[1]), "")
        elif name == PID_INFO and (content := folder.read(name, info)) is not None:
            self.owners.update(_owners(content.data))
        return False

    def conclude(self, unit: str) -> str:
        """Report scratch that nobody will use again; return a line about what it is."""
        alive = [str(pid) for pid in self.owners if Path(f"/proc/{pid}").exists()]
        foreign = sorted(
            path for path in self.owners.values() if path and not _is_below(path, self.place)
        )
        size, place = megabytes(self.bytes), unit or "."
        if alive and not foreign:
            return (
                f"{place}: {size} of build scratch of ATC or torch_npu, whose process {alive[0]} "
                "runs here: leave it alone"
            )
        owner = "a process that is not recorded"
        if self.owners:
            owner = f"process {next(iter(self.owners))}, which does not run here"
        detail = (
            f"was left by {owner}. No program reads it again and no limit removes it, so you can "
            f"delete it. If it is in version control, add {IGNORE} to the ignored files"
        )
        if foreign:
            detail += f". It was copied: it records the path {foreign[0][:80]}"
        remove = tuple(self.files) if len(self.files) <= _KEPT else ()
        self.ledger.add(Check.LEFTOVERS, unit or ".", detail, self.bytes, remove)
        return f"{place}: {size} of build scratch of ATC or torch_npu; it is no cache"


def _owners(data: bytes) -> dict[int, str]:
    try:
        listed = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    owners = {}
    for each in listed if isinstance(listed, list) else ():
        pair = [each.get("pid"), ""] if isinstance(each, dict) else each  # of newer releases
        if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int:
            owners[pair[0]] = pair[1] if isinstance(pair[1], str) else ""
    return owners


def _is_below(path: str, place: str) -> bool:
    """Return whether a recorded path is where the scratch is now."""
    return path.startswith(place) or place.startswith(path)
