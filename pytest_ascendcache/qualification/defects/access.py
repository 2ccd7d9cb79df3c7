"""Caches that must be writable or stay where they are, and caches that reach outside."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import FileAct, Fs, LockUnavailable
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

READ_ONLY = "robust/read-only-cache"
RELOCATE = "robust/relocatable"
ESCAPE = "security/no-path-escape"
LINKS = "security/no-symlink-follow"


@defect(READ_ONLY, overrides=LookupPolicy.find)
def unnoted_use_is_a_miss(self, right, fs, entry, expected):
    """A hit whose access time cannot be renewed is a miss (T11)."""
    data = right(fs, entry, expected)
    try:
        if data is not None:
            fs.step("lookup.touch", FileAct.TOUCH, entry.metadata)
            times = entry.metadata.stat()
            os.utime(entry.metadata, ns=(times.st_atime_ns, times.st_mtime_ns))
    except OSError:
        return None
    return data


@defect(READ_ONLY, overrides=StorePolicy.publish)
def unstored_fails(self, right, fs, entry, data, metadata, keep):
    """A kernel that cannot be stored fails the compile."""
    if not right(fs, entry, data, metadata, keep):
        raise AtcError("E40023", f"[{entry.directory}] cannot be written.")
    return True


@defect(READ_ONLY, overrides=DirectoryPolicy.prepare, harm=Harm.LOST_WORK)
def a_read_only_cache_is_refused(self, right, fs, root, soc, origin):
    """A cache that cannot be written is refused, by name."""
    right(fs, root, soc, origin)
    directory = self.soc(root, soc)
    try:
        fs.write_temporary("open.ini", directory / "probe", b"").unlink()
    except OSError as error:
        raise self.cannot_create(directory, origin, error) from None


@defect(READ_ONLY, overrides=Fs._open_lock)
def a_lock_of_another_user_fails(self, right, path):
    """A lock that only another user may open fails the compile."""
    try:
        return right(path)
    except LockUnavailable as error:
        if error.errno != errno.EACCES:
            raise
        raise AtcError("E40021", f"[{path}] cannot be opened: {error.strerror}.") from None


@defect(RELOCATE, overrides=StorePolicy.replace_pair)
def entries_know_their_directory(self, right, fs, entry, data, metadata):
    """Entries are valid only in the directory they were made in."""
    right(fs, entry, data, {**metadata, "origin": str(entry.directory)})


@entries_know_their_directory.also(LookupPolicy.find)
def _(self, right, fs, entry, expected):
    return right(fs, entry, {**expected, "origin": str(entry.directory)})


@defect(RELOCATE, overrides=PurgePolicy.upgrade)
def cache_knows_its_inode(self, right, fs, kernel_cache, stamp):
    """The directory's inode is in the version stamp."""
    place = f"{stamp}place={kernel_cache} {kernel_cache.stat().st_ino}\n"
    return right(fs, kernel_cache, place)


def object_name(entry: EntryFiles) -> str:
    """The object's name in the metadata, empty if it cannot be read."""
    try:
        fields = json.loads(entry.metadata.read_bytes())
        return str(fields["binFileName"] + fields["binFileSuffix"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def named_object(entry: EntryFiles) -> Path | None:
    """The object that the metadata names, inside the cache or not."""
    name = object_name(entry)
    return Path(entry.directory, name) if name else None


@defect(ESCAPE, overrides=LookupPolicy.find)
def names_are_followed(self, right, fs, entry, *_):
    """The object is read from wherever the metadata says (T19)."""
    path = named_object(entry)
    try:
        data = path.read_bytes() if path else b""
        digest = json.loads(entry.metadata.read_bytes())["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return data if self.digest_matches(data, digest) else None


@defect(LINKS, overrides=AgingPolicy.walk, harm=Harm.OUTSIDE_TOUCHED, found_later=True)
def linked_directories_are_aged(self, right, fs, directory):
    """Aging follows links to directories."""
    yield from right(fs, directory)
    for entry in fs.entries("aging.list", directory):
        if entry.is_symlink() and entry.is_dir():
            yield from right(fs, Path(entry.path))


@defect(LINKS, overrides=PurgePolicy.upgrade, harm=Harm.OUTSIDE_TOUCHED, found_later=True)
def upgrades_empty_linked_chips(self, right, fs, kernel_cache, stamp):
    """Another version empties directories that links in kernel_cache point to."""
    is_old = self.stamp(fs, kernel_cache / "version.info") not in (None, stamp)
    for entry in fs.entries("upgrade.list", kernel_cache):
        if is_old and entry.is_symlink() and entry.is_dir():
            self.empty(fs, Path(entry.path))
    return right(fs, kernel_cache, stamp)


@defect(ESCAPE, overrides=PurgePolicy.force, harm=Harm.OUTSIDE_TOUCHED)
def names_are_purged(self, right, fs, soc_directory):
    """Purging removes the file that the metadata names, wherever it is (T19)."""
    for metadata in soc_directory.glob("*.json"):
        named = named_object(EntryFiles(soc_directory, metadata.stem))
        if named is not None and named.is_file():
            fs.remove("purge.named", named)
    return right(fs, soc_directory)


@defect(ESCAPE, overrides=AgingPolicy.remove)
def names_are_aged(self, right, fs, unit):
    """Aging removes the file that the metadata names, wherever it is (T19)."""
    for each in unit.files:
        named = named_object(EntryFiles(each.path.parent, each.path.stem))
        if named is not None and named.is_file():
            fs.remove("aging.named", named)
    right(fs, unit)


@defect(LINKS, overrides=PurgePolicy.force)
def links_are_purged(self, right, fs, soc_directory):
    """Purging removes what a link points to (T18)."""
    for path in soc_directory.iterdir():
        target = path.resolve()
        if path.is_symlink() and target.is_dir():
            shutil.rmtree(target)
        elif path.is_symlink():
            target.unlink(missing_ok=True)
    return right(fs, soc_directory)


@defect(LINKS, overrides=AgingPolicy.remove)
def links_are_aged(self, right, fs, unit):
    """Aging removes what a link points to."""
    directory = unit.files[0].path.parent
    for path in directory.iterdir():
        if path.is_symlink() and path.is_file():
            path.resolve().unlink()
    right(fs, unit)


@defect(LINKS, overrides=StorePolicy.replace_pair)
def links_are_written_through(self, right, fs, entry, data, metadata):
    """An entry is replaced by writing through the link in its place."""
    if entry.object.is_symlink():
        entry.object.write_bytes(data)
        entry.metadata.write_bytes(self.metadata_text(data, metadata))
    else:
        right(fs, entry, data, metadata)


@defect(LINKS, overrides=RegistryPolicy.hide, found_later=True)
def links_of_a_package_are_emptied(self, right, fs, directory):
    """Uninstalling a package removes the directories that its links point to."""
    for path in (directory, *directory.rglob("*")):
        if path.is_symlink() and path.is_dir():
            shutil.rmtree(path.resolve())
    return right(fs, directory)


@defect(LINKS, overrides=KernelMetaPolicy.replace_files, found_later=True)
def ranks_write_through_links(self, right, fs, contents):
    """A rank writes its kernels through links in their place."""
    right(fs, {path.resolve(): data for path, data in contents.items()})


@defect(READ_ONLY, overrides=RankDirectoryPolicy.prepare)
def rank_has_to_write(self, right, fs, base, gang):
    """A rank that cannot write to its directory reuses nothing from it."""
    directory = right(fs, base, gang)
    try:
        if directory is not None:
            fs.remove("meta.probe", fs.write_temporary("meta.probe", directory / "w", b""))
    except OSError:
        return None
    return directory


@defect(RELOCATE, overrides=LookupPolicy.find)
def younger_object_is_a_miss(self, right, fs, entry, expected):
    """An object younger than its metadata is a miss."""
    data = right(fs, entry, expected)
    if data is None:
        return None
    times = [path.stat().st_mtime for path in (entry.metadata, entry.object)]
    return data if times[1] <= times[0] + 1 else None


@defect(READ_ONLY, overrides=KernelMetaPolicy.publish, found_later=True)
def a_rank_fails_that_cannot_keep_a_kernel(self, right, fs, entry, *arguments):
    """A rank ends with an error where what it compiled cannot be written."""
    if right(fs, entry, *arguments):
        return True
    raise AtcError("E40022", f"[{entry.directory}] cannot be written.")
