"""Caches that insist on their place or on writing, and caches that leave their place."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy, Unit
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Act, Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.surroundings import Gang
from pytest_ascendcache.reference.policies import Policies

READ_ONLY = "robust/read-only-cache"
RELOCATE = "robust/relocatable"
ESCAPE = "security/no-path-escape"
LINKS = "security/no-symlink-follow"


@defect(READ_ONLY, what="a use that cannot be noted is a miss (T11)")
def unnoted_use_is_a_miss() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            try:
                if data is not None:
                    fs.step("lookup.touch", Act.TOUCH, entry.metadata)
                    times = entry.metadata.stat()
                    os.utime(entry.metadata, ns=(times.st_atime_ns, times.st_mtime_ns))
            except OSError:
                return None
            return data

    return Policies(lookup=Wrong())


@defect(READ_ONLY, what="what cannot be stored fails the compile")
def unstored_fails() -> Policies:
    class Wrong(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            if not super().publish(fs, entry, data, metadata, keep):
                raise AtcError("E40023", f"[{entry.directory}] cannot be written.")
            return True

    return Policies(store=Wrong())


@defect(RELOCATE, what="entries are for the directory they were made in")
def entries_know_their_directory() -> Policies:
    class WrongStore(StorePolicy):
        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            super().replace_pair(fs, entry, data, {**metadata, "origin": str(entry.directory)})

    class WrongLookup(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            return super().find(fs, entry, {**expected, "origin": str(entry.directory)})

    return Policies(lookup=WrongLookup(), store=WrongStore())


@defect(RELOCATE, what="the directory's inode is in the version stamp")
def cache_knows_its_inode() -> Policies:
    class Wrong(PurgePolicy):
        def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
            place = f"{stamp}place={kernel_cache} {kernel_cache.stat().st_ino}\n"
            return super().upgrade(fs, kernel_cache, place)

    return Policies(purge=Wrong())


def named_object(entry: EntryFiles) -> Path | None:
    """The object the metadata names, wherever that is."""
    try:
        fields = json.loads(entry.metadata.read_bytes())
        return Path(entry.directory, fields["binFileName"] + fields["binFileSuffix"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@defect(ESCAPE, what="the object is read from where the metadata says (T19)")
def names_are_followed() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            path = named_object(entry)
            try:
                data = path.read_bytes() if path else b""
                digest = json.loads(entry.metadata.read_bytes())["sha256"]
            except (OSError, ValueError, KeyError):
                return None
            return data if self.digest_matches(data, digest) else None

    return Policies(lookup=Wrong())


@defect(ESCAPE, what="purging removes the object the metadata names (T19)")
def names_are_purged() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            for metadata in soc_directory.glob("*.json"):
                named = named_object(EntryFiles(soc_directory, metadata.stem))
                if named is not None and named.is_file():
                    fs.remove("purge.named", named)
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect(ESCAPE, what="aging removes the object the metadata names (T19)")
def names_are_aged() -> Policies:
    class Wrong(AgingPolicy):
        def remove(self, fs: Fs, unit: Unit) -> None:
            for each in unit.files:
                named = named_object(EntryFiles(each.path.parent, each.path.stem))
                if named is not None and named.is_file():
                    fs.remove("aging.named", named)
            super().remove(fs, unit)

    return Policies(aging=Wrong())


@defect(LINKS, what="purging empties what a link points to (T18)")
def links_are_purged() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            for path in soc_directory.iterdir():
                target = path.resolve()
                if path.is_symlink() and target.is_dir():
                    shutil.rmtree(target)
                elif path.is_symlink() and path.suffix == ".o":
                    target.unlink(missing_ok=True)
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect(LINKS, what="aging removes what a link points to")
def links_are_aged() -> Policies:
    class Wrong(AgingPolicy):
        def remove(self, fs: Fs, unit: Unit) -> None:
            directory = unit.files[0].path.parent
            for path in directory.iterdir():
                if path.is_symlink() and path.is_file():
                    path.resolve().unlink()
            super().remove(fs, unit)

    return Policies(aging=Wrong())


@defect(LINKS, what="an entry is replaced by writing through the link in its place")
def links_are_written_through() -> Policies:
    class Wrong(StorePolicy):
        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            if entry.object.is_symlink():
                entry.object.write_bytes(data)
                entry.metadata.write_bytes(self.metadata_text(data, metadata))
            else:
                super().replace_pair(fs, entry, data, metadata)

    return Policies(store=Wrong())


@defect(READ_ONLY, what="a rank that cannot write its directory does not use it")
def rank_has_to_write() -> Policies:
    class Wrong(RankDirectoryPolicy):
        def prepare(self, fs: Fs, base: Path, gang: Gang) -> Path | None:
            directory = super().prepare(fs, base, gang)
            try:
                if directory is not None:
                    fs.remove("meta.probe", fs.write_temporary("meta.probe", directory / "w", b""))
            except OSError:
                return None
            return directory

    return Policies(incremental=IncrementalPolicies(directory=Wrong()))


@defect(RELOCATE, what="an object younger than its metadata is a miss")
def younger_object_is_a_miss() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            if data is None:
                return None
            times = [path.stat().st_mtime for path in (entry.metadata, entry.object)]
            return data if times[1] <= times[0] + 1 else None

    return Policies(lookup=Wrong())
