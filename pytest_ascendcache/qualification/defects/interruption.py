"""Caches that do not stand being interrupted, or a disk that fails."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Act, Fs, LockUnavailable
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.info import InfoInputs, InfoPolicy
from pytest_ascendcache.reference.incremental.store import (
    KernelMetaPolicy,
    ReusePolicy,
    kernel_json,
)
from pytest_ascendcache.reference.policies import Policies

INTERRUPTED = "robust/interrupted-compile"
POWER = "robust/power-loss"
LOCK = "robust/dead-lock-holder"
DISK = "robust/disk-full"
UPGRADE = "robust/upgrade-stamp"
KILLED, MID_WRITE, POWER_LOSS, ERROR = "killed", "mid-write", "power loss", "injected error"


class InPlace(Fs):
    """Writes straight to where a file belongs; what was there is gone with the first step."""

    def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
        if target.exists():
            self.remove(f"{point}.remove", target)
        self.step(f"{point}.create", Act.CREATE, target)
        with target.open("xb", buffering=0) as file:
            self.step(f"{point}.write", Act.WRITE, target, data)
            file.write(data)
            self.step(f"{point}.fsync", Act.SYNC, target)
            os.fsync(file.fileno())
        return target

    def replace(self, point: str, source: Path, target: Path) -> None:
        if source != target:
            super().replace(point, source, target)


class NothingToClear(StorePolicy):
    """Publishes without withdrawing what stood there."""

    def clear(self, fs: Fs, path: Path) -> None:
        pass


class Trusting(LookupPolicy):
    """Takes what was published for whole, and does not look at digests."""

    def digest_matches(self, data: bytes, digest: object) -> bool:
        return True


class Demanding(LookupPolicy):
    """Where there is metadata there has to be an entry; else the compile fails."""

    def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
        data = super().find(fs, entry, expected)
        if data is None and entry.metadata.exists():
            raise AtcError("E40021", f"cannot load [{entry.metadata}].")
        return data


class MetadataFirst(StorePolicy):
    """Publishes the metadata before the object it describes."""

    def replace_pair(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
    ) -> None:
        text = self.metadata_text(data, metadata)
        for point, path, content in (
            ("store.metadata", entry.metadata, text),
            ("store.object", entry.object, data),
        ):
            temporary = fs.write_temporary(point, path, content)
            fs.replace(f"{point}.rename", temporary, path)


@defect(INTERRUPTED, what="metadata is written in place, and half of it is an error", crash=KILLED)
def torn_metadata() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            try:
                json.loads(entry.metadata.read_bytes())
            except FileNotFoundError:
                return None
            except ValueError:
                raise AtcError("E40021", f"cannot parse [{entry.metadata}].") from None
            return super().find(fs, entry, expected)

    return having(Wrong(), NothingToClear(), InPlace())


@defect(
    INTERRUPTED,
    what="an object is written in place after its metadata, and served unless it is empty",
    crash=MID_WRITE,
)
def torn_object() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return bool(data)

    return having(Wrong(), MetadataFirst(), InPlace())


@defect(INTERRUPTED, what="metadata is published before its object", crash=KILLED)
def metadata_first() -> Policies:
    return having(Demanding(), MetadataFirst())


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED)
def shared_temporary_name(self, right, target):
    """All writers use one temporary name."""
    return target.with_name(f".{target.name}.temp")


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED, found_later=True)
def temporary_names_of_a_number(self, right, target):
    """Temporary names differ in the number of the process alone, and have to be new."""
    return target.with_name(f".{target.name}.{os.getpid()}.temp")


@defect(INTERRUPTED, what="a rank writes in place, and half a .json is an error", crash=KILLED)
def rank_files_in_place() -> Policies:
    class Torn(KernelMetaPolicy):
        def replace_files(self, fs: Fs, contents: Mapping[Path, bytes]) -> None:
            for path, data in contents.items():
                InPlace.write_temporary(fs, f"meta.store{path.suffix}", path, data)  # type: ignore[arg-type]

    class Strict(ReusePolicy):
        def find(
            self, fs: Fs, entry: EntryFiles, inputs: InfoInputs, info: InfoPolicy
        ) -> bytes | None:
            if entry.metadata.exists() and not entry.metadata.read_bytes():
                raise AtcError("E40021", f"cannot parse [{entry.metadata}].")
            return super().find(fs, entry, inputs, info)

    return having(Strict(), Torn())


@defect(
    POWER,
    what="files are renamed before they are synced, and what was renamed is trusted",
    crash=POWER_LOSS,
)
def missing_fsync() -> Policies:
    class Wrong(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            path = self.temporary_path(target)
            self.step(f"{point}.create", Act.CREATE, path)
            with path.open("xb", buffering=0) as file:
                self.step(f"{point}.write", Act.WRITE, path, data)
                file.write(data)
            return path

    return having(Trusting(), Wrong())


@defect(
    POWER,
    what="an entry of which one rename was lost fails the compile",
    crash=POWER_LOSS,
)
def renames_taken_for_ordered() -> Policies:
    return having(Demanding())


@defect(LOCK, INTERRUPTED, overrides=Fs.lock, crash=KILLED)
@contextmanager
def lock_outlives_holder(self, right, point, path, patience=0.0):
    """The lock is a file that outlives its holder."""
    name = path.with_suffix(f".{point}.lock")
    self.step(point, Act.LOCK, name)
    try:
        name.touch(exist_ok=False)
    except FileExistsError:
        raise LockUnavailable(11, "held by another process", str(name)) from None
    try:
        yield
    finally:
        self.remove(f"{point}.release", name)


class Oblivious(Fs):
    """Writes files without looking whether all of it was written."""

    def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
        path = self.temporary_path(target)
        self.step(f"{point}.create", Act.CREATE, path)
        with path.open("xb", buffering=0) as file:
            self.put(file.fileno(), f"{point}.write", path, data)
            self.step(f"{point}.fsync", Act.SYNC, path)
            os.fsync(file.fileno())
        return path

    def put(self, descriptor: int, point: str, path: Path, data: bytes) -> None:
        """One write."""
        self.step(point, Act.WRITE, path, data)
        os.write(descriptor, data)


@defect(DISK, what="a short write is not noticed, and what was renamed is trusted", crash=ERROR)
def short_write_ignored() -> Policies:
    return having(Trusting(), Oblivious())


@defect(DISK, what="on a full disk an empty object is published and served", crash=ERROR)
def full_disk_ignored() -> Policies:
    class Wrong(Oblivious):
        def put(self, descriptor: int, point: str, path: Path, data: bytes) -> None:
            try:
                super().put(descriptor, point, path, data)
            except OSError:
                if path.name.count(".json"):
                    os.write(descriptor, data)

    return having(Trusting(), Wrong())


@defect(DISK, overrides=StorePolicy.publish, crash=ERROR)
def refusals_crash(self, right, fs, entry, data, metadata, keep):
    """What the cache refuses ends the compiler."""
    with fs.lock("store.lock", entry.lock):
        if not (keep and self.is_current(fs, entry, metadata)):
            self.replace_pair(fs, entry, data, metadata)
    return True


@defect(UPGRADE, overrides=PurgePolicy.upgrade, crash=KILLED)
def stamp_before_purge(self, right, fs, kernel_cache, stamp):
    """The stamp is written before the old entries go (T7)."""
    path = kernel_cache / "version.info"
    if self.stamp(fs, path) == stamp:
        return True
    try:
        temporary = fs.write_temporary("upgrade.stamp", path, stamp.encode())
        fs.replace("upgrade.stamp.rename", temporary, path)
        for each in fs.entries("upgrade.list", kernel_cache):
            if each.is_dir():
                self.force(fs, Path(each.path))
    except OSError:
        return False
    return True


@defect(UPGRADE, what="only the SoC of the first compile is purged (T6)")
def upgrade_of_one_soc() -> Policies:
    compiled: list[str] = []

    class WrongDirectory(DirectoryPolicy):
        def soc(self, root: Path, soc: str) -> Path:
            compiled.append(soc)
            return super().soc(root, soc)

    class WrongPurge(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            return soc_directory.name not in compiled or super().force(fs, soc_directory)

    return having(WrongPurge(), WrongDirectory())


@defect(UPGRADE, overrides=PurgePolicy.upgrade)
def downgrade_keeps_the_cache(self, right, fs, kernel_cache, stamp):
    """An older toolchain takes the cache of a newer one for its own."""
    before = self.stamp(fs, kernel_cache / "version.info")
    return (before or "") >= stamp or right(fs, kernel_cache, stamp)


@defect(UPGRADE, overrides=Fs.sync_directory, crash=POWER_LOSS)
def purge_not_synced(self, right, point, path):
    """The purge is not synced before the stamp is."""
    if point != "purge.sync":
        right(point, path)


@defect(UPGRADE, overrides=PurgePolicy.force, crash=ERROR)
def failed_purge_is_stamped(self, right, fs, soc_directory):
    """A purge that fails is stamped all the same."""
    right(fs, soc_directory)
    return True


def _trusting_rank(fs: Fs) -> Policies:
    """A rank that takes what was published for whole."""

    class Trusts(ReusePolicy):
        def verified(self, fs: Fs, entry: EntryFiles, operator: OperatorSpec) -> bytes | None:
            return Trusting().verified(fs, entry, kernel_json(operator, entry.stem))

    return having(fs, Trusts())


@defect(DISK, what="a rank does not notice a short write, and runs what it kept", crash=ERROR)
def rank_ignores_short_writes() -> Policies:
    return _trusting_rank(Oblivious())


@defect(POWER, what="a rank syncs nothing, and runs what it kept unread", crash=POWER_LOSS)
def rank_syncs_nothing() -> Policies:
    class Wrong(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            path = self.temporary_path(target)
            self.step(f"{point}.create", Act.CREATE, path)
            with path.open("xb", buffering=0) as file:
                self.step(f"{point}.write", Act.WRITE, path, data)
                file.write(data)
            return path

    return _trusting_rank(Wrong())


@defect(INTERRUPTED, overrides=Fs.temporary_path, crash=KILLED)
def rank_shares_temporary_name(self, right, target):
    """A rank's temporary files have one name for all."""
    if target.parent.name != "kernel_meta":
        return right(target)
    return target.with_name(f".{target.name}.temp")
