"""Serving and publishing entries: what may be served, and how one is replaced.

An entry is ``<stem>.o`` and ``<stem>.json``. The metadata is the commit point: it carries the
object's digest, is published last and withdrawn first, so that whatever happens in between is
seen as no entry or as a damaged one, never as another kernel. That holds in whatever order
renames reach the disk, so directories need no sync of their own.
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
    """Where one entry is."""

    directory: Path
    stem: str

    @property
    def object(self) -> Path:
        """The object file."""
        return self.directory / f"{self.stem}.o"

    @property
    def metadata(self) -> Path:
        """The metadata file."""
        return self.directory / f"{self.stem}.json"

    @property
    def lock(self) -> Path:
        """The lock of all writers of this SoC; it is never removed."""
        return self.directory / LOCK_NAME


class LookupPolicy:
    """Serves an entry only when every byte of it is accounted for.

    Whether a use is then noted (:meth:`renew`) is for the limits to say: -1 asks for none.
    """

    def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
        """The verified object, or ``None`` where the entry is missing or damaged.

        ``expected`` is the metadata a fresh compile would write, without the digest. What is
        returned is what was verified: the file is read once.
        """
        return self.verified(fs, entry, expected)

    def verified(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
        """Read and check both files."""
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
        """Whether the metadata is what this toolchain writes for this key."""
        return metadata == expected

    def digest_matches(self, data: bytes, digest: object) -> bool:
        """Whether the object is the one the metadata was written for."""
        return digest == hashlib.sha256(data).hexdigest()

    def renew(self, fs: Fs, entry: EntryFiles) -> None:
        """Note the use for aging; a cache that may only be read gives hits all the same."""
        for path in (entry.metadata, entry.object):
            try:
                fs.renew_access_time("lookup.renew", path)
            except OSError:
                return


class StorePolicy:
    """Publishes entries whole, as one pair, durably."""

    def publish(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
    ) -> bool:
        """Write an entry; whether it is there afterwards.

        ``keep`` leaves a valid entry of the same key alone, so that of many writers only the
        first writes. Not being able to store is no error: the compile has succeeded.
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
        """Whether another process published a valid entry meanwhile."""
        return LookupPolicy().verified(fs, entry, metadata) is not None

    def replace_pair(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
    ) -> None:
        """Publish object and metadata, whatever stands in their place."""
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
        """The metadata file with the object's digest, as CANN writes it."""
        fields = {**metadata, "sha256": hashlib.sha256(data).hexdigest()}
        return json.dumps(fields, indent=4, sort_keys=True).encode()

    def clear(self, fs: Fs, path: Path) -> None:
        """Withdraw what stands at a name; a directory in its place goes if it is empty."""
        if path.is_dir() and not path.is_symlink():
            fs.remove_directory("store.clear", path)
        else:
            fs.remove("store.clear", path)
