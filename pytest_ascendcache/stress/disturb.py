"""Disturbs a cache between rounds, while no process uses it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from pytest_ascendcache.caches import Entry, read_entries
from pytest_ascendcache.contract.aging import HALF_AN_HOUR, MEGABYTE
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.stress.history import Disturbance, StressHarm

SHELF = "te_shelf_"
"""Names of the harness's own entries, sparse files that make a cache large without using space."""

_DAMAGES = {each.name: each for each in DAMAGES}
_KERNEL = b"\x7fELF, an entry nobody asks for"


def disturb(disturbance: Disturbance, directory: Path) -> None:
    """Disturb one chip's directory. Does nothing if there is no suitable entry."""
    entries = read_entries(directory)
    if disturbance.harm is StressHarm.CLEAR:
        shutil.rmtree(directory, ignore_errors=True)
    elif disturbance.harm is StressHarm.AGE:
        if entries:
            _age(directory, list(entries.values()), disturbance.entry)
    else:
        valid = [entry for entry in entries.values() if entry.is_valid]
        if not valid:
            return
        entry = valid[disturbance.entry % len(valid)]
        if disturbance.harm is StressHarm.DAMAGE:
            _DAMAGES[disturbance.damage].apply(entry)
        else:
            entry.metadata_path.unlink()
            entry.object_path.unlink()


def _age(directory: Path, entries: list[Entry], parity: int) -> None:
    """Make half of the entries look idle for hours, and add one that takes the cache over 1 MB."""
    shelf = Entry(f"{SHELF}{hashlib.sha256(b'shelf').hexdigest()}", directory)
    with shelf.object_path.open("wb") as file:
        file.write(_KERNEL)
        file.truncate(MEGABYTE + 1)
    shelf.metadata_path.write_text(json.dumps({"binFileName": shelf.stem}))
    for number, entry in enumerate((*entries, shelf)):
        if entry is shelf or (number + parity) % 2:
            for path in (entry.object_path, entry.metadata_path):
                # A damaged entry may lack a file.
                with contextlib.suppress(OSError):
                    accessed = time.time_ns() - int((number + 2) * HALF_AN_HOUR * 10**9)
                    modified = path.lstat().st_mtime_ns
                    os.utime(path, ns=(accessed, modified), follow_symlinks=False)


def take_down(directory: Path) -> None:
    """Remove the harness's own entry."""
    for path in directory.glob(f"{SHELF}*"):
        path.unlink()
