"""Looking up and publishing cache entries.

An entry is ``<stem>.o`` and ``<stem>.json``. The metadata is the commit point: it contains the
object's digest, is published last and removed first. A crash in between leaves a missing or a
damaged entry, never a wrong kernel. That holds in whatever order the renames reach the disk, so
the directory is not synced.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable

LOCK_NAME = ".op_cache.lock"


@dataclass(frozen=True)
class EntryFiles:
    """The paths of one entry."""

    directory: Path
    stem: str

    @property
    def object(self) -> Path:
        return self.directory / f"{self.stem}.o"

    @property
    def metadata(self) -> Path:
        return self.directory / f"{self.stem}.json"

    @property
    def lock(self) -> Path:
        """The lock that all writers of this SoC share. It is never removed."""
        return self.directory / LOCK_NAME


def kernel_name(stem: str) -> str:
    """The symbol of an entry's kernel in its object."""
    return f"{stem}__kernel0"


class LookupPolicy:
    """Reuses an entry only if its metadata is as expected and its object has the right digest.

    The limits decide whether a hit then updates access times (:meth:`renew`): -1 turns that off.
    """

    def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
        """The verified object, or ``None`` if the entry is missing or damaged.

        ``expected`` is the metadata that a new compile would write, without the digest. The
        object is read only once, so the returned bytes are the verified ones.
        """
        return self.verified(fs, entry, expected)

    def verified(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
        """Read and verify both files. Returns the object, or ``None``."""
        try:
            metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
            data = fs.read("lookup.object", entry.object)
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(metadata, dict):
            return None
        digest = metadata.pop("sha256", None)
        if not self.metadata_matches(metadata, expected) or not self.digest_matches(data, digest):
            return None
        return data

    def metadata_matches(self, metadata: dict[str, Any], expected: dict[str, Any]) -> bool:
        """Whether the metadata equals what this toolchain writes for this key."""
        return metadata == expected

    def digest_matches(self, data: bytes, digest: object) -> bool:
        """Whether the object has the digest that the metadata records."""
        return digest == hashlib.sha256(data).hexdigest()

    def renew(self, fs: Fs, entry: EntryFiles) -> None:
        """Update the access times for aging. A read-only cache still serves hits."""
        for path in (entry.metadata, entry.object):
            try:
                fs.renew_access_time("lookup.renew", path)
            except OSError:
                return


class StorePolicy:
    """Publishes entries: object and metadata together, complete and synced to disk."""

    def publish(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
    ) -> bool:
        """Write an entry. Returns whether a valid entry exists afterwards.

        ``keep`` keeps a valid entry of the same key, so that only the first of many concurrent
        writers writes. A failure to store is not an error, because the compile has succeeded.
        """
        try:
            with fs.lock("store.lock", entry.lock):
                if keep and self.is_current(fs, entry, metadata):
                    return True
                self.replace_pair(fs, entry, data, metadata)
        except (OSError, LockUnavailable):
            return False
        return True

    def is_current(self, fs: Fs, entry: EntryFiles, metadata: dict[str, Any]) -> bool:
        """Whether another process has published a valid entry in the meantime."""
        return LookupPolicy().verified(fs, entry, metadata) is not None

    def replace_pair(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
    ) -> None:
        """Publish object and metadata in place of whatever has their names."""
        text = self.metadata_text(data, metadata)
        new_object = fs.write_temporary("store.object", entry.object, data)
        try:
            new_metadata = fs.write_temporary("store.metadata", entry.metadata, text)
        except BaseException:
            fs.remove("store.abandon", new_object)
            raise
        try:
            self.clear(fs, entry.metadata)
            self.clear(fs, entry.object)
            fs.replace("store.object.rename", new_object, entry.object)
            fs.replace("store.metadata.rename", new_metadata, entry.metadata)
        except BaseException:
            fs.remove("store.abandon", new_object)
            fs.remove("store.abandon", new_metadata)
            raise

    def metadata_text(self, data: bytes, metadata: dict[str, Any]) -> bytes:
        """The content of the metadata file, with the object's digest, in CANN's format."""
        fields = {**metadata, "sha256": hashlib.sha256(data).hexdigest()}
        return json.dumps(fields, indent=4, sort_keys=True).encode()

    def clear(self, fs: Fs, path: Path) -> None:
        """Remove what has this name: a file, a link, or an empty directory."""
        if path.is_dir() and not path.is_symlink():
            fs.remove_directory("store.clear", path)
        else:
            fs.remove("store.clear", path)
