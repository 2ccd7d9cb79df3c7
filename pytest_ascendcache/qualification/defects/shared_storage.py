"""Caches that work in a local directory but fail when several nodes share one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.interruption import publishes_metadata_first
from pytest_ascendcache.qualification.defects.races import a_lost_file_fails, overwriting
from pytest_ascendcache.qualification.defects.static_kernel_packages import listed_at_the_beginning
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import FileAct, Fs, LockUnavailable
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, PackageManifest
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.packages import ClientPackagePolicy
from pytest_ascendcache.reference.static_kernel.client.programs import run
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE, LOCK_NAME, RegistryPolicy
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

KERNELS = "shared/right-kernels"
FAILURE = "shared/no-failure"
NAMES = "shared/late-names"
LOCKS = "shared/node-local-locks"
CLOCKS = "shared/clocks"


@defect(KERNELS, overrides=LookupPolicy.find, also=[publishes_metadata_first, overwriting])
def a_lock_in_place_of_a_digest(self, right, fs, entry, expected):
    """An entry that is read under a lock of this node is trusted without its digest."""
    try:
        with fs.lock("lookup.lock", entry.lock):
            metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
            data = fs.read("lookup.object", entry.object)
    except (OSError, ValueError, LockUnavailable):
        return None
    metadata.pop("sha256", None)
    return data if metadata == expected else None


@defect(FAILURE, overrides=StorePolicy.publish)
def the_winner_must_be_seen(self, right, fs, entry, data, metadata, keep):
    """A run that learns that another node made the entry fails if it cannot see it."""
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


@defect(NAMES, "robust/same-key-race", overrides=Fs.make_directories)
def a_directory_is_made_once(self, right, point, path):
    """A run fails if a missing directory exists by the time it creates it."""
    for each in (*reversed(path.parents), path):
        if not each.is_dir():
            self.step(point, FileAct.MAKE_DIRECTORY, each)
            each.mkdir(self.directory_mode)


@defect(NAMES, overrides=StorePolicy.publish)
def a_taken_name_is_noted_as_broken(self, right, fs, entry, data, metadata, keep):
    """A name that looked free but is taken is marked as broken for ever."""
    if keep and not entry.metadata.exists() and _is_listed(fs, entry.metadata):
        fs.write_new("store.note", _note(entry), b"")
        return False
    return right(fs, entry, data, metadata, keep)


@a_taken_name_is_noted_as_broken.also(LookupPolicy.find)
def _(self, right, fs, entry, expected):
    return None if _note(entry).exists() else right(fs, entry, expected)


def _note(entry: EntryFiles) -> Path:
    return entry.directory / f"{entry.stem}.broken"


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
    """A writer fails if a file is gone that its lock should have protected."""
    try:
        right(fs, entry, data, metadata)
    except FileNotFoundError as error:
        raise AtcError("E40021", f"[{error.filename}] is gone.") from None


@defect("shared/replaced-under-reader", overrides=LookupPolicy.find)
def a_stale_handle_fails(self, right, fs, entry, expected):
    """A file that cannot be read to its end fails the compile."""
    for path in (entry.metadata, entry.object):
        try:
            fs.read("lookup.try", path)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise AtcError("E40021", f"[{path}] cannot be read.") from None
    return right(fs, entry, expected)


@defect("shared/same-process-ids", overrides=Fs.write_temporary, also=[a_lost_file_fails])
def named_by_process(self, right, point, target, data):
    """The names of temporary files differ only in the process id."""
    path = self.temporary_path(target)
    path.unlink(missing_ok=True)
    self.write_new(point, path, data)
    return path


@named_by_process.also(Fs.temporary_path)
def _(self, right, target):
    return target.with_name(f".{target.name}.{os.getpid()}.temp")


@defect("shared/force-and-aging", overrides=LookupPolicy.find)
def a_locked_object_must_be_there(self, right, fs, entry, expected):
    """An object that is gone while its reader holds the lock fails the compile."""
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
    """An access time in the future counts as one long ago."""
    return (now_ns - unit.accessed_ns) % 2**64 > 1800 * 10**9


@defect(CLOCKS, overrides=AgingPolicy.age)
def old_temporary_files_go(self, right, fs, directory, limits, now_ns):
    """Each run removes temporary files that are five minutes old."""
    for each in fs.entries("aging.sweep", directory):
        if each.name.endswith(".temp") and now_ns - each.stat().st_mtime_ns > 300 * 10**9:
            fs.remove("aging.swept", Path(each.path))
    return right(fs, directory, limits, now_ns)


@defect(FAILURE, overrides=KernelMetaPolicy.replace_files)
def a_rank_is_alone_in_its_directory(self, right, fs, contents):
    """A rank relies on being the only process that writes its temporary files."""
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
    """A rank fails if it cannot see a kernel whose name it finds taken."""
    if not entry.metadata.exists() and _is_listed(fs, entry.metadata):
        raise AtcError("E40021", f"[{entry.metadata}] is missing.")
    return right(fs, entry, *given)


@defect(NAMES, overrides=SelectionPolicy.load)
def what_the_index_names_must_be_seen(self, right, fs, opp, entry):
    """A client fails if a kernel that the index names is missing."""
    path = opp / AI_CORE / entry["binPath"]
    if not path.exists():
        raise AtcError("E40021", f"[{path}] is missing.")
    return right(fs, opp, entry)


@defect(FAILURE)
def list_rests_on_its_lock():
    """An installer relies on a lock of this node and does not read the list again."""
    return [listed_at_the_beginning]


@defect(NAMES, overrides=RegistryPolicy.directories)
def an_installer_goes_by_what_it_sees(self, right, fs, path):
    """A package that is listed but cannot be seen yet counts as not installed."""
    names = [each.name for each in fs.entries("install.list", path)]
    return [each for each in names if (path / each).is_dir()]


@defect(LOCKS, overrides=RegistryPolicy.turn)
@contextlib.contextmanager
def packages_need_a_lock(self, right, fs, opp):
    """Without a lock a package is not installed."""
    with fs.lock("install.try", opp / ".static_kernel.try"):
        pass
    (opp / ".static_kernel.try").unlink()
    with right(fs, opp) as ai_core:
        yield ai_core


@defect(LOCKS, overrides=RegistryPolicy.remove, found_later=True)
def a_late_comer_holds_nothing(self, right, fs, ai_core, name, leaver=None, force=False):
    """A package is removed although a process began to use it during the uninstall."""
    return right(fs, ai_core, name, leaver, True)


@defect(LOCKS, overrides=ClientPackagePolicy.claim)
def known_by_locks(self, right, fs, opp, package):
    """A process counts as alive only if it holds a lock."""
    owned = right(fs, opp, package)
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(owned.record, os.O_RDWR), fcntl.LOCK_SH)
    return owned


@known_by_locks.also(ClientPackagePolicy.clean)
def _(self, right, opp, environ):
    for record in self.records(opp):
        descriptor = os.open(record, os.O_RDWR)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            script = opp / AI_CORE / record.parent.name / "uninstall.sh"
            if script.is_file():
                run(
                    [str(script), "--force"],
                    {**environ, "ASCEND_OPP_PATH": str(opp)},
                    Cards(),
                )
            self.forget(record)
        os.close(descriptor)
    return []


@defect(KERNELS, overrides=SelectionPolicy.read_index)
def a_lock_in_place_of_a_look(self, right, fs, opp, soc):
    """An index that is read under a lock of this node is trusted."""
    with contextlib.suppress(LockUnavailable), fs.lock("select.lock", opp / LOCK_NAME):
        pass
    return right(fs, opp, soc)


@a_lock_in_place_of_a_look.also(SelectionPolicy.load)
def _(self, right, fs, opp, entry):
    data = right(fs, opp, entry)
    if data is None:
        raise AtcError("E40021", f"[{entry['binPath']}] is no kernel.")
    return data


@a_lock_in_place_of_a_look.also(RegistryPolicy.put_in_place)
def _(self, right, fs, ai_core, staged, name):
    names = [*(each for each in self.names(fs, ai_core) if each != name), name]
    parts = {each: self.parts(fs, ai_core / each) for each in names}
    new = PackageManifest.parse((staged / MANIFEST).read_bytes())
    parts[name] = {new.directory: new.index}
    indexes = [each[new.directory] for each in parts.values() if new.directory in each]
    self.write_index(fs, ai_core / "config" / new.directory, indexes)
    right(fs, ai_core, staged, name)
