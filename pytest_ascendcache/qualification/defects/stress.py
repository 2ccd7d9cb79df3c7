"""Caches that go wrong only when many things happen, one after the other or at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.policies import Policies

STRESS = "robust/stress"


@defect(STRESS, what="what was verified once is trusted from then on")
def verified_once() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
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
            data = super().find(fs, entry, expected)
            if data is not None:
                text = "\n".join([*known, entry.stem]).encode()
                fs.replace("lookup.note", fs.write_temporary("lookup.note", note, text), note)
            return data

    return Policies(lookup=Wrong())


@defect(STRESS, what="a rank's force clears the caches of all ranks beside it")
def force_reaches_other_ranks() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            below = Path(*soc_directory.parts[-3:])
            for other in soc_directory.parents[3].glob(f"rank*/{below}"):
                self.empty(fs, other)
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())
