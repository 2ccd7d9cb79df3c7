"""Caches that do not survive an interruption, or a disk that fails."""

import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification.catalogue import defect, override
from pytest_ascendcache.qualification.defects.entries import demanding
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import FileAct, Fs, LockUnavailable
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.incremental.store import (
    KernelMetaPolicy,
    ReusePolicy,
    kernel_json,
)
from pytest_ascendcache.reference.installation import InstallationPolicy

INTERRUPTED = "robust/interrupted-compile"
POWER = "robust/power-loss"
LOCK = "robust/dead-lock-holder"
DISK = "robust/disk-full"
UPGRADE = "robust/upgrade-stamp"

KILLED, MID_WRITE = CrashKind.KILLED.value, CrashKind.MID_WRITE.value
POWER_LOSS, ERROR = CrashKind.POWER_LOSS.value, CrashKind.INJECTED_ERROR.value


def write(fs, point, path, data, mode="xb", synced=True):
    """Write a file in the steps of the reference, the last of which is to sync it."""
    fs.step(f"{point}.create", FileAct.CREATE, path)
    with path.open(mode, buffering=0) as file:
        fs.step(f"{point}.write", FileAct.WRITE, path, data)
        file.write(data)
        if synced:
            fs.step(f"{point}.fsync", FileAct.SYNC, path)
            os.fsync(file.fileno())
    return path


class InPlace(Fs):
    """Writes straight to a file's final place; the first step destroys what was there."""

    def write_temporary(self, point, target, data):
        if target.exists():
            self.remove(f"{point}.remove", target)
        return write(self, point, target, data)

    def replace(self, point, source, target):
        if source != target:
            super().replace(point, source, target)


@override(StorePolicy.clear)
def clears_nothing(*_):
    """A store does not remove the old entry first."""


@override(LookupPolicy.digest_matches)
def trusting(*_):
    """A lookup takes every published object for complete and checks no digest."""
    return True


@override(StorePolicy.replace_pair)
def publishes_metadata_first(self, right, fs, entry, data, metadata):
    """A store publishes the metadata before the object it describes."""
    text = self.metadata_text(data, metadata)
    for point, path, content in (
        ("store.metadata", entry.metadata, text),
        ("store.object", entry.object, data),
    ):
        fs.write_whole(point, path, content)


@override(Fs.write_temporary)
def unsynced(self, right, point, target, data):
    """Files are not synced before they are renamed."""
    return write(self, point, self.temporary_path(target), data, synced=False)


@defect(INTERRUPTED, overrides=LookupPolicy.find, also=[clears_nothing, InPlace], crash=KILLED)
def torn_metadata(self, right, fs, entry, expected):
    """Metadata is written in place, and a run that finds half of it fails."""
    try:
        json.loads(entry.metadata.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise AtcError("E40021", f"cannot parse [{entry.metadata}].") from None
    return right(fs, entry, expected)


@defect(
    INTERRUPTED,
    overrides=LookupPolicy.digest_matches,
    also=[publishes_metadata_first, InPlace],
    crash=MID_WRITE,
)
def torn_object(self, right, data, *_):
    """An object is written in place after its metadata, and served unless it is empty."""
    return bool(data)


@defect(INTERRUPTED, crash=KILLED)
def metadata_first():
    """Metadata is published before its object."""
    return demanding, publishes_metadata_first


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED)
def shared_temporary_name(self, right, target):
    """All writers use one temporary name."""
    return target.with_name(f".{target.name}.temp")


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED)
def rank_shares_temporary_name(self, right, target):
    """All ranks use one temporary name for a file."""
    if target.parent.name != "kernel_meta":
        return right(target)
    return target.with_name(f".{target.name}.temp")


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED, found_later=True)
def temporary_names_of_a_number(self, right, target):
    """A temporary name contains only the process id, and a file of that name is an error."""
    return target.with_name(f".{target.name}.{os.getpid()}.temp")


@defect(INTERRUPTED, overrides=KernelMetaPolicy.replace_files, crash=KILLED)
def rank_files_in_place(self, right, fs, contents):
    """A rank writes in place, and a run that finds half a .json fails."""
    for path, data in contents.items():
        InPlace.write_temporary(fs, f"meta.store{path.suffix}", path, data)


@rank_files_in_place.also(ReusePolicy.find)
def _(self, right, fs, entry, *arguments):
    if entry.metadata.exists() and not entry.metadata.read_bytes():
        raise AtcError("E40021", f"cannot parse [{entry.metadata}].")
    return right(fs, entry, *arguments)


@defect(POWER, crash=POWER_LOSS)
def missing_fsync():
    """Files are renamed before they are synced, and a renamed file is trusted."""
    return trusting, unsynced


@defect(POWER, crash=POWER_LOSS)
def renames_taken_for_ordered():
    """An entry that lost one of its renames fails the compile."""
    return [demanding]


@defect(LOCK, INTERRUPTED, overrides=Fs.lock, crash=KILLED)
@contextmanager
def lock_outlives_holder(self, right, point, path, patience=0.0):
    """The lock is a file that outlives its holder."""
    name = path.with_suffix(f".{point}.lock")
    self.step(point, FileAct.LOCK, name)
    try:
        name.touch(exist_ok=False)
    except FileExistsError:
        raise LockUnavailable(11, "held by another process", str(name)) from None
    try:
        yield
    finally:
        self.remove(f"{point}.release", name)


class _OneWrite(Fs):
    """Writes a file with one call and does not look whether that wrote all of it."""

    def write_temporary(self, point, target, data):
        path = self.temporary_path(target)
        self.step(f"{point}.create", FileAct.CREATE, path)
        with path.open("xb", buffering=0) as file:
            self.put(file.fileno(), f"{point}.write", path, data)
            self.step(f"{point}.fsync", FileAct.SYNC, path)
            os.fsync(file.fileno())
        return path

    def put(self, descriptor, point, path, data):
        """The one call."""
        self.step(point, FileAct.WRITE, path, data)
        os.write(descriptor, data)


class _OneWriteThatMayFail(_OneWrite):
    """Ignores errors of the call; metadata is written all the same."""

    def put(self, descriptor, point, path, data):
        try:
            super().put(descriptor, point, path, data)
        except OSError:
            if path.name.count(".json"):
                os.write(descriptor, data)


@defect(DISK, crash=ERROR)
def short_write_ignored():
    """A short write goes unnoticed, and a renamed file is trusted."""
    return trusting, _OneWrite


@defect(DISK, crash=ERROR)
def full_disk_ignored():
    """On a full disk an empty object is published and served."""
    return trusting, _OneWriteThatMayFail


@defect(DISK, overrides=StorePolicy.publish, crash=ERROR)
def refusals_crash(self, right, fs, entry, data, metadata, keep):
    """A write that the cache's disk refuses ends the compiler."""
    with fs.lock("store.lock", entry.lock):
        if not (keep and self.is_current(fs, entry, metadata)):
            self.replace_pair(fs, entry, data, metadata)
    return True


@defect(DISK, UPGRADE, overrides=PurgePolicy.empty, crash=ERROR, found_later=True)
def force_keeps_what_it_cannot_remove(self, right, fs, directory):
    """Force leaves off at a file that cannot be removed, and says nothing."""
    with suppress(OSError):
        right(fs, directory)


class _Trusting(LookupPolicy):
    def digest_matches(self, *_):
        return True


@override(ReusePolicy.verified)
def _trusting_rank(self, right, fs, entry, operator):
    """A rank takes every published object for complete."""
    return _Trusting().verified(fs, entry, kernel_json(operator, entry.stem))


@defect(DISK, crash=ERROR)
def rank_ignores_short_writes():
    """A rank does not notice a short write, and runs the kernel it kept."""
    return _trusting_rank, _OneWrite


@defect(POWER, crash=POWER_LOSS)
def rank_syncs_nothing():
    """A rank syncs nothing, and runs the kernels it kept without checking them."""
    return _trusting_rank, unsynced


@defect(INTERRUPTED, overrides=InstallationPolicy.load_custom_operators)
def a_missing_package_is_remembered(self, right, environ):
    """A user who had no package of operators once has none from then on."""
    noted = Path(environ["HOME"]) / ".no_custom_operators"
    if not environ.get("ASCEND_CUSTOM_OPP_PATH"):
        noted.touch()
    elif not noted.exists():
        right(environ)


@defect(INTERRUPTED, overrides=ImplementationPolicy.select)
def a_refusal_is_remembered(self, right, options, environ):
    """After a bad precision file every compile in this cache is refused."""
    refused = options.cache_dir and Path(options.cache_dir) / ".refused"
    if refused and refused.exists():
        raise AtcError("E20003", "the configuration is invalid.")
    try:
        return right(options, environ)
    except AtcError:
        if refused and refused.parent.is_dir():
            refused.touch()
        raise
