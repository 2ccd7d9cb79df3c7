"""Caches that do not stand company."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.entries import WINDOW
from pytest_ascendcache.qualification.defects.interruption import MetadataFirst, Trusting
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Act, Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.policies import Policies

TORN = "robust/no-torn-entry"
RACE = "robust/same-key-race"


class Overwriting(PurgePolicy):
    """Force overwrites what it compiles and leaves the rest."""

    def force(self, fs: Fs, soc_directory: Path) -> bool:
        return True


class Unlocked(Fs):
    """Writers do not wait for each other."""

    @contextmanager
    def lock(self, point: str, path: Path, patience: float = 0.0) -> Iterator[None]:
        self.step(point, Act.LOCK, path)
        path.touch()
        yield


@defect(TORN, what="new metadata is published over the old object, and digests are not checked")
def metadata_over_the_old_object() -> Policies:
    return having(Trusting(), MetadataFirst(), Overwriting())


@defect(TORN, overrides=LookupPolicy.find)
def vanished_object_fails(self, right, fs, entry, *_):
    """An object that vanishes after its metadata was read fails the compile."""
    try:
        metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
    except (OSError, ValueError):
        return None
    try:
        data = fs.read("lookup.object", entry.object)
    except OSError:
        raise AtcError("E40021", f"[{entry.object}] is gone.") from None
    return data if self.digest_matches(data, metadata.get("sha256")) else None


@defect(TORN, overrides=LookupPolicy.find)
def object_read_in_pieces(self, right, fs, entry, expected):
    """An object is read piece by piece, opened anew for each."""
    if right(fs, entry, expected) is None:
        return None
    half = len(fs.read("lookup.object", entry.object)) // 2
    head = fs.read("lookup.object", entry.object)[:half]
    return head + fs.read("lookup.object", entry.object)[half:]


@defect(RACE)
class TemporaryFileLost(Unlocked):
    """Writers without a lock share a temporary file, and one loses it."""

    def write_temporary(self, point, target, data):
        path = target.with_name(f".{target.name}.temp")
        self.step(f"{point}.create", Act.CREATE, path)
        with path.open("wb", buffering=0) as file:
            self.step(f"{point}.write", Act.WRITE, path, data)
            file.write(data)
            self.step(f"{point}.fsync", Act.SYNC, path)
            os.fsync(file.fileno())
        return path

    def replace(self, point, source, target):
        try:
            super().replace(point, source, target)
        except FileNotFoundError:
            raise AtcError("E40021", f"[{source}] is gone.") from None


@defect(RACE, what="writers without a lock withdraw each other's entry")
def entries_withdrawn_unlocked() -> Policies:
    class Wrong(StorePolicy):
        def clear(self, fs: Fs, path: Path) -> None:
            if path.suffix == ".json":
                super().clear(fs, path)

        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            time.sleep(WINDOW)  # others look before this one stores
            was_there = entry.metadata.exists()
            super().replace_pair(fs, entry, data, metadata)
            if was_there:
                fs.remove("store.withdraw", entry.object)

    return having(Wrong(), Unlocked())


@defect(
    RACE,
    what="the lock of an entry is given back when the process ends",
    harm=Harm.HANG,
    found_later=True,
)
def locks_of_entries_kept() -> Policies:
    def take(fs: Fs, entry: EntryFiles) -> None:
        if entry.stem in taken:
            return
        path = entry.directory / f"{entry.stem}.lock"
        fs.step("entry.lock", Act.LOCK, path)
        taken[entry.stem] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(taken[entry.stem], fcntl.LOCK_EX)

    class Looking(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            if entry.directory.is_dir():
                take(fs, entry)
            return super().find(fs, entry, expected)

    class Storing(StorePolicy):
        def publish(self, fs: Fs, entry: EntryFiles, *given: Any, **more: Any) -> bool:
            take(fs, entry)
            return super().publish(fs, entry, *given, **more)

    taken: dict[str, int] = {}
    return having(Looking(), Storing())
