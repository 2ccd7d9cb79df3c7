"""What is done to a cache between rounds, while nobody is at work in it."""

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
from pytest_ascendcache.stress.history import Disturbance, Harm

SHELF = "te_shelf_"
"""Entries with this name are ours: they make a cache large without taking space."""

_DAMAGES = {each.name: each for each in DAMAGES}
_KERNEL = b"\x7fELF, an entry nobody asks for"


def disturb(disturbance: Disturbance, directory: Path) -> None:
    """Do it to one SoC's directory; nothing happens where there is nothing to do it to."""
    entries = read_entries(directory)
    if disturbance.harm is Harm.CLEAR:
        shutil.rmtree(directory, ignore_errors=True)
    elif disturbance.harm is Harm.AGE:
        if entries:
            _age(directory, list(entries.values()), disturbance.entry)
    else:
        valid = [entry for entry in entries.values() if entry.is_valid]
        if not valid:
            return
        entry = valid[disturbance.entry % len(valid)]
        if disturbance.harm is Harm.DAMAGE:
            _DAMAGES[disturbance.damage].apply(entry)
        else:
            entry.metadata_path.unlink()
            entry.object_path.unlink()


def _age(directory: Path, entries: list[Entry], which: int) -> None:
    """Half of the entries were last used long ago; one more makes the cache pass 1 MB."""
    shelf = Entry(f"{SHELF}{hashlib.sha256(b'shelf').hexdigest()}", directory)
    with shelf.object_path.open("wb") as file:
        file.write(_KERNEL)
        file.truncate(MEGABYTE + 1)
    shelf.metadata_path.write_text(json.dumps({"binFileName": shelf.stem}))
    for number, entry in enumerate((*entries, shelf)):
        if entry is shelf or (number + which) % 2:
            for path in (entry.object_path, entry.metadata_path):
                # Of damaged entries a file may be missing.
                with contextlib.suppress(OSError):
                    _rest(path, (number + 2) * HALF_AN_HOUR)


def _rest(path: Path, idle: float) -> None:
    accessed = time.time_ns() - int(idle * 10**9)
    os.utime(path, ns=(accessed, path.lstat().st_mtime_ns), follow_symlinks=False)


def take_down(directory: Path) -> None:
    """Remove what is left of our own entry."""
    for path in directory.glob(f"{SHELF}*"):
        path.unlink()
