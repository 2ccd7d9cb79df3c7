"""Caches that are right in a local directory, and go wrong where several nodes share one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.interruption import MetadataFirst
from pytest_ascendcache.qualification.defects.races import Overwriting
from pytest_ascendcache.qualification.defects.static_kernel_packages import ListedAtTheBeginning
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Act, Fs, LockUnavailable
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Manifest
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.packages import PackagePolicy
from pytest_ascendcache.reference.static_kernel.client.programs import run
from pytest_ascendcache.reference.static_kernel.registry import (
    AI_CORE,
    LOCK_NAME,
    RegistryPolicy,
)
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

KERNELS = "shared/right-kernels"
FAILURE = "shared/no-failure"
NAMES = "shared/late-names"
LOCKS = "shared/node-local-locks"
REPLACED = "shared/replaced-under-reader"
IDS = "shared/same-process-ids"
ROOM = "shared/force-and-aging"
CLOCKS = "shared/clocks"


class LocksToRead(LookupPolicy):
    """What is read under the lock is believed."""

    def find(self, fs, entry, expected):
        try:
            with fs.lock("lookup.lock", entry.lock):
                metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
                data = fs.read("lookup.object", entry.object)
        except (OSError, ValueError, LockUnavailable):
            return None
        metadata.pop("sha256", None)
        return data if metadata == expected else None


@defect(KERNELS, what="what is read under a lock of this node is believed without its digest")
def a_lock_in_place_of_a_digest() -> Policies:
    return having(LocksToRead(), MetadataFirst(), Overwriting())


@defect(FAILURE, overrides=StorePolicy.publish)
def the_winner_must_be_seen(self, right, fs, entry, data, metadata, keep):
    """Who finds that another node has made the entry demands to see it."""
    claim = entry.directory / f"{entry.stem}.claim"
    try:
        fs.write_new("store.claim", claim, b"")
    except FileExistsError:
        if keep and not entry.metadata.exists() and _is_listed(fs, entry.metadata):
            raise AtcError("E40021", f"[{entry.metadata}] of another process is missing.") from None
    except OSError:
        return False
    return right(fs, entry, data, metadata, keep)


def _is_listed(fs: Fs, path: Path) -> bool:
    return any(each.name == path.name for each in fs.entries("store.list", path.parent))


@defect(NAMES, overrides=Fs.make_directories)
def a_directory_is_made_once(self, right, point, path):
    """A directory that was missing must not be there when it is made."""
    for each in (*reversed(path.parents), path):
        if not each.is_dir():
            self.step(point, Act.MAKE_DIRECTORY, each)
            each.mkdir(self.directory_mode)


class NotesBroken(StorePolicy):
    """A name that was missing and is taken all the same is noted as broken."""

    def publish(self, fs, entry, data, metadata, keep):
        if keep and not entry.metadata.exists() and _is_listed(fs, entry.metadata):
            fs.write_new("store.note", _note(entry), b"")
            return False
        return super().publish(fs, entry, data, metadata, keep)


class BelievesNotes(LookupPolicy):
    """What is noted as broken is not looked at."""

    def find(self, fs, entry, expected):
        return None if _note(entry).exists() else super().find(fs, entry, expected)


def _note(entry: EntryFiles) -> Path:
    return entry.directory / f"{entry.stem}.broken"


@defect(
    NAMES, what="a name that was missing and is taken all the same is noted as broken, for good"
)
def a_taken_name_is_noted_as_broken() -> Policies:
    return having(NotesBroken(), BelievesNotes())


@defect(LOCKS, overrides=Fs._acquire)
def a_lock_must_be_had(self, right, descriptor, path, deadline):
    """A file system without locks fails the compile."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return right(descriptor, path, deadline)
    except OSError as error:
        raise AtcError("E40021", f"[{path}] cannot be locked: {error.strerror}.") from None


@defect(LOCKS, overrides=StorePolicy.replace_pair)
def a_store_trusts_its_lock(self, right, fs, entry, data, metadata):
    """A writer fails when a file is gone that its lock should have kept."""
    try:
        right(fs, entry, data, metadata)
    except FileNotFoundError as error:
        raise AtcError("E40021", f"[{error.filename}] is gone.") from None


@defect(REPLACED, overrides=LookupPolicy.find)
def a_stale_handle_fails(self, right, fs, entry, expected):
    """A file that cannot be read to its end fails the compile."""
    for path in (entry.metadata, entry.object):
        try:
            fs.read("lookup.try", path)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise AtcError("E40021", f"[{path}] cannot be read.") from None
    return right(fs, entry, expected)


@defect(IDS)
class NamedByProcess(Fs):
    """Temporary files are named by the process id alone."""

    def temporary_path(self, target):
        return target.with_name(f".{target.name}.{os.getpid()}.temp")

    def write_temporary(self, point, target, data):
        path = self.temporary_path(target)
        path.unlink(missing_ok=True)
        self.write_new(point, path, data)
        return path

    def replace(self, point, source, target):
        try:
            super().replace(point, source, target)
        except FileNotFoundError:
            raise AtcError("E40021", f"[{source}] is gone.") from None


@defect(ROOM, overrides=LookupPolicy.find)
def a_locked_object_must_be_there(self, right, fs, entry, expected):
    """An object that is gone although its reader holds the lock fails the compile."""
    try:
        with fs.lock("lookup.lock", entry.lock):
            fs.read("lookup.metadata", entry.metadata)
            try:
                fs.read("lookup.object", entry.object)
            except FileNotFoundError:
                raise AtcError("E40021", f"[{entry.object}] is gone.") from None
    except OSError:
        return None
    return right(fs, entry, expected)


@defect(CLOCKS, overrides=AgingPolicy.is_idle)
def an_unsigned_difference(self, right, unit, now_ns):
    """An access in the future counts as one long ago."""
    return (now_ns - unit.accessed_ns) % 2**64 > 1800 * 10**9


@defect(CLOCKS, overrides=AgingPolicy.age)
def old_temporary_files_go(self, right, fs, directory, limits, now_ns):
    """Unfinished files that are five minutes old are swept at each opening."""
    for each in fs.entries("aging.sweep", directory):
        if each.name.endswith(".temp") and now_ns - each.stat().st_mtime_ns > 300 * 10**9:
            fs.remove("aging.swept", Path(each.path))
    return right(fs, directory, limits, now_ns)


@defect(FAILURE, overrides=KernelMetaPolicy.replace_files)
def a_rank_is_alone_in_its_directory(self, right, fs, contents):
    """A rank's temporary files are its own, as nobody else runs it."""
    own = {path: path.with_name(f".{path.name}.temp") for path in contents}
    for path, data in contents.items():
        own[path].unlink(missing_ok=True)
        fs.write_new(f"meta.store{path.suffix}", own[path], data)
    for path, temporary in own.items():
        try:
            fs.replace(f"meta.store{path.suffix}.rename", temporary, path)
        except FileNotFoundError as error:
            raise AtcError("E40021", f"[{error.filename}] is gone.") from None


@defect(NAMES, overrides=KernelMetaPolicy.publish)
def a_kernel_that_is_listed_must_be_seen(self, right, fs, entry, *given):
    """A rank demands to see the kernel whose name it finds taken."""
    if not entry.metadata.exists() and _is_listed(fs, entry.metadata):
        raise AtcError("E40021", f"[{entry.metadata}] is missing.")
    return right(fs, entry, *given)


@defect(NAMES, overrides=SelectionPolicy.load)
def what_the_index_names_must_be_seen(self, right, fs, opp, entry):
    """A kernel that the index names and that is missing fails the client."""
    path = opp / AI_CORE / entry["binPath"]
    if not path.exists():
        raise AtcError("E40021", f"[{path}] is missing.")
    return right(fs, opp, entry)


@defect(FAILURE)
class ListRestsOnItsLock(ListedAtTheBeginning):
    """Packages are listed by who installs them, under a lock of this node."""


@defect(NAMES, overrides=RegistryPolicy.directories)
def an_installer_goes_by_what_it_sees(self, right, fs, path):
    """What is listed and cannot be seen yet is not installed."""
    names = [each.name for each in fs.entries("install.list", path)]
    return [each for each in names if (path / each).is_dir()]


@defect(LOCKS, overrides=RegistryPolicy.turn)
@contextlib.contextmanager
def packages_need_a_lock(self, right, fs, opp):
    """A package that cannot have a lock is not installed."""
    with fs.lock("install.try", opp / ".static_kernel.try"):
        pass
    (opp / ".static_kernel.try").unlink()
    with right(fs, opp) as ai_core:
        yield ai_core


@defect(LOCKS, what="a process is known to live by a lock that it holds")
class KnownByLocks(PackagePolicy):
    def claim(self, fs, opp, package):
        owned = super().claim(fs, opp, package)
        with contextlib.suppress(OSError):
            fcntl.flock(os.open(owned.record, os.O_RDWR), fcntl.LOCK_SH)
        return owned

    def clean(self, opp, environ):
        for record in self.records(opp):
            descriptor = os.open(record, os.O_RDWR)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                script = opp / AI_CORE / record.parent.name / "uninstall.sh"
                if script.is_file():
                    run([str(script), "--force"], {**environ, "ASCEND_OPP_PATH": str(opp)}, Cards())
                self.forget(record)
            os.close(descriptor)
        return []


class ReadsUnderTheLock(SelectionPolicy):
    """What the index names under the lock is there."""

    def read_index(self, fs, opp, soc):
        with contextlib.suppress(LockUnavailable), fs.lock("select.lock", opp / LOCK_NAME):
            pass
        return super().read_index(fs, opp, soc)

    def load(self, fs, opp, entry):
        found = super().load(fs, opp, entry)
        if found is None:
            raise AtcError("E40021", f"[{entry['binPath']}] is no kernel.")
        return found


class IndexFirst(RegistryPolicy):
    """What nobody may read yet is named before it is there."""

    def put_in_place(self, fs, ai_core, staged, name):
        names = [*(each for each in self.names(fs, ai_core) if each != name), name]
        parts = {each: self.parts(fs, ai_core / each) for each in names}
        new = Manifest.parse((staged / MANIFEST).read_bytes())
        parts[name] = {new.directory: new.index}
        indexes = [each[new.directory] for each in parts.values() if new.directory in each]
        self.write_index(fs, ai_core / "config" / new.directory, indexes)
        super().put_in_place(fs, ai_core, staged, name)


@defect(KERNELS, what="an index that is read under a lock of this node is believed")
def a_lock_in_place_of_a_look() -> Policies:
    return having(ReadsUnderTheLock(), IndexFirst())
