"""Caches that fail when several processes use them at once."""

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect, override
from pytest_ascendcache.qualification.defects.entries import WINDOW
from pytest_ascendcache.qualification.defects.interruption import (
    publishes_metadata_first,
    trusting,
    write,
)
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import FileAct, Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError

TORN = "robust/no-torn-entry"
RACE = "robust/same-key-race"


@override(PurgePolicy.force)
def overwriting(*_):
    """Force overwrites what it compiles and leaves the rest."""
    return True


@override(Fs.lock)
@contextmanager
def unlocked(self, right, point, path, *_):
    """Writers do not wait for each other."""
    self.step(point, FileAct.LOCK, path)
    path.touch()
    yield


@override(Fs.replace)
def a_lost_file_fails(self, right, point, source, target):
    """A writer whose temporary file is gone fails the compile."""
    try:
        right(point, source, target)
    except FileNotFoundError:
        raise AtcError("E40021", f"[{source}] is gone.") from None


@defect(TORN)
def metadata_over_the_old_object():
    """New metadata is published over the old object, and digests are not checked."""
    return trusting, publishes_metadata_first, overwriting


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
    """An object is read in two pieces, and opened again for the second."""
    if right(fs, entry, expected) is None:
        return None
    half = len(fs.read("lookup.object", entry.object)) // 2
    head = fs.read("lookup.object", entry.object)[:half]
    return head + fs.read("lookup.object", entry.object)[half:]


@defect(RACE, overrides=Fs.write_temporary, also=[unlocked, a_lost_file_fails])
def temporary_file_lost(self, right, point, target, data):
    """Writers without a lock share a temporary file, and one of them loses it."""
    return write(self, point, target.with_name(f".{target.name}.temp"), data, mode="wb")


@defect(RACE, overrides=StorePolicy.replace_pair, also=[unlocked])
def entries_withdrawn_unlocked(self, right, fs, entry, *arguments):
    """Writers without a lock withdraw each other's entry."""
    time.sleep(WINDOW)  # others look before this one stores
    was_there = entry.metadata.exists()
    right(fs, entry, *arguments)
    if was_there:
        fs.remove("store.withdraw", entry.object)


@entries_withdrawn_unlocked.also(StorePolicy.clear)
def _(self, right, fs, path):
    if path.suffix == ".json":
        right(fs, path)


@defect(RACE, overrides=LookupPolicy.find, memory={"taken": {}}, harm=Harm.HANG, found_later=True)
def locks_of_entries_kept(self, right, fs, entry, expected):
    """The lock of an entry is released only when the process ends."""
    if entry.directory.is_dir():
        _take(self.memory.taken, fs, entry)
    return right(fs, entry, expected)


@locks_of_entries_kept.also(StorePolicy.publish)
def _(self, right, fs, entry, *arguments):
    _take(self.memory.taken, fs, entry)
    return right(fs, entry, *arguments)


def _take(taken, fs, entry):
    """Lock an entry, once in a process; ``taken`` has the open lock file of each stem."""
    if entry.stem in taken:
        return
    path = entry.directory / f"{entry.stem}.lock"
    fs.step("entry.lock", FileAct.LOCK, path)
    taken[entry.stem] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken[entry.stem], fcntl.LOCK_EX)


@defect("cache-mode/enable-stores", overrides=AgingPolicy.age, found_later=True)
def temporary_files_of_others_swept(self, right, fs, directory, *arguments):
    """Whatever opens a cache removes the temporary files in it, also of writers that are alive."""
    for each in fs.entries("sweep.list", directory):
        if each.name.startswith(".") and each.name.endswith(".temp"):
            with suppress(OSError):
                fs.remove("sweep.remove", directory / each.name)
    return right(fs, directory, *arguments)
