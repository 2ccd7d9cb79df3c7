"""Caches that go wrong only when many things happen, one after the other or at once."""

from __future__ import annotations

from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy

STRESS = "robust/stress"


@defect(STRESS, overrides=LookupPolicy.find)
def verified_once(self, right, fs, entry, expected):
    """What was verified once is trusted from then on."""
    note = entry.directory / "verified.txt"
    try:
        known = fs.read("lookup.known", note).decode().split()
    except OSError:
        known = []
    if entry.stem in known:
        try:
            return fs.read("lookup.object", entry.object)
        except OSError:
            return None
    data = right(fs, entry, expected)
    if data is not None:
        text = "\n".join([*known, entry.stem]).encode()
        fs.replace("lookup.note", fs.write_temporary("lookup.note", note, text), note)
    return data


@defect(STRESS, overrides=PurgePolicy.force)
def force_reaches_other_ranks(self, right, fs, soc_directory):
    """A rank's force clears the caches of all ranks beside it."""
    below = Path(*soc_directory.parts[-3:])
    for other in soc_directory.parents[3].glob(f"rank*/{below}"):
        self.empty(fs, other)
    return right(fs, soc_directory)
