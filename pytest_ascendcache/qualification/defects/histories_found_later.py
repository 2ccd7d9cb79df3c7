"""What a run leaves to later ones that they must not go by: each shows in the third run or later,
or where one run has to wait for another."""

from __future__ import annotations

import hashlib
import stat
import time
from contextlib import suppress
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.entry import LOCK_NAME, EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import LockUnavailable
from pytest_ascendcache.reference.cache.limits import (
    RATIO_KEY,
    SIZE_KEY,
    SIZE_VARIABLE,
    LimitPolicy,
)
from pytest_ascendcache.reference.cache.purge import PurgePolicy

NEEDS_BOTH = "aging/needs-both"
PURGES = "cache-mode/force-purges-soc"
_TEN_MINUTES = 600 * 10**9


@defect("aging/hit-renews", overrides=LookupPolicy.renew, found_later=True)
def uses_are_noted_now_and_then(self, right, fs, entry):
    """A use is not noted within ten minutes of one that was."""
    with suppress(OSError):
        idle = time.time_ns() - fs.state("lookup.state", entry.metadata).st_atime_ns
        if 0 <= idle < _TEN_MINUTES:
            return
    right(fs, entry)


@defect(NEEDS_BOTH, found_later=True)
class WhatIsThereAtMinusOneStays(AgingPolicy):
    """What is there while aging is off is made read-only, and never ages."""

    def age(self, fs, directory, limits, now_ns):
        if limits.off:
            for unit in self.scan(fs, directory):
                for each in unit.files:
                    with suppress(OSError):
                        each.path.chmod(0o440)
        return super().age(fs, directory, limits, now_ns)

    def is_idle(self, unit, now_ns):
        try:
            kept = not unit.files[0].path.lstat().st_mode & stat.S_IWUSR
        except OSError:
            kept = False
        return super().is_idle(unit, now_ns) and not kept


@defect(NEEDS_BOTH, found_later=True)
class OneUserSwitchesOffForAll(LimitPolicy):
    """A -1 of the environment is written to op_cache.ini, where it counts for everybody."""

    def find(self, fs, root, kernel_cache, environ):
        found = super().find(fs, root, kernel_cache, environ)
        if environ.get(SIZE_VARIABLE) == "-1":
            with (root / "op_cache.ini").open("a") as file:
                file.write(f"{SIZE_KEY}=-1\n{RATIO_KEY}=50\n")
        return found


@defect(PURGES, found_later=True)
class ForceThatHadToWaitPurgesNothing(PurgePolicy):
    """Force that finds the lock taken goes by that another one purges."""

    upgrades = False

    def force(self, fs, soc_directory):
        if not self.upgrades:
            lock = soc_directory / LOCK_NAME
            try:
                with fs.lock("purge.lock", lock, patience=0.0):
                    pass
            except LockUnavailable:
                with suppress(LockUnavailable, OSError), fs.lock("purge.lock", lock):
                    return True
        return super().force(fs, soc_directory)

    def upgrade(self, fs, kernel_cache, stamp):
        self.upgrades = True
        try:
            return super().upgrade(fs, kernel_cache, stamp)
        finally:
            self.upgrades = False


@defect(PURGES, found_later=True)
class EntriesComeBackWithTheirVersion(PurgePolicy):
    """Entries of another version are set aside, and force does not look for them there."""

    def upgrade(self, fs, kernel_cache, stamp):
        found, directories = self.stamp(fs, kernel_cache / "version.info"), []
        if found not in (None, stamp):
            entries = fs.entries("upgrade.list", kernel_cache)
            directories = [Path(each.path) for each in entries if each.is_dir()]
        for each in directories:
            self.move(fs, each, self.aside(each, found))
        done = super().upgrade(fs, kernel_cache, stamp)
        for each in directories:
            self.move(fs, self.aside(each, stamp), each)
        return done

    def move(self, fs, source, target):
        """Move the files of a directory, but for its lock."""
        fs.make_directories("upgrade.mkdir", target)
        for each in fs.entries("upgrade.list", source):
            if each.is_file(follow_symlinks=False) and each.name != LOCK_NAME:
                fs.replace("upgrade.aside", Path(each.path), target / each.name)

    def aside(self, directory, version):
        """Where the entries of a version are while another one is in use."""
        name = hashlib.sha256(version.encode()).hexdigest()[:16]
        return directory.parent.parent / f".of_{name}" / directory.name


@defect("debug/results-not-cached", overrides=LookupPolicy.find, found_later=True)
def what_debugging_left_is_served(self, right, fs, entry, metadata):
    """Where the cache has nothing, a kernel that a debug level left in kernel_meta is taken."""
    found = right(fs, entry, metadata)
    if found is None:
        found = right(fs, EntryFiles(Path("kernel_meta").absolute(), entry.stem), metadata)
    return found
