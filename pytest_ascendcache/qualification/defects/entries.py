"""Entries that are served or stored wrongly."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.om import Model
from pytest_ascendcache.reference.outputs import OutputPolicy
from pytest_ascendcache.reference.policies import Policies

STORES = "cache-mode/enable-stores"
REUSES = "cache-mode/enable-reuses"
HEALS = "robust/heals-damaged-entry"
RACE = "robust/same-key-race"
VERIFY = "security/verify-before-load"
MODES = "security/private-modes"

WINDOW = 0.05
"""Seconds a racy defect keeps its window open, so that it shows at every run."""


def another(data: bytes) -> bytes:
    """An object with one byte changed where no loader looks: the OS/ABI field of its header."""
    return data[:7] + b"\3" + data[8:]


class NeverCurrent(StorePolicy):
    """Writes although a valid entry is there."""

    def is_current(self, fs: Fs, entry: EntryFiles, metadata: dict[str, Any]) -> bool:
        return False


@defect(STORES, what="nothing is stored")
def stores_nothing() -> Policies:
    class Wrong(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            return True

    return Policies(store=Wrong())


@defect(STORES, what="only the first operator of a run is stored")
def stores_first_operator() -> Policies:
    class Wrong(StorePolicy):
        stored = 0

        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            self.stored += 1
            return self.stored > 1 or super().publish(fs, entry, data, metadata, keep)

    return Policies(store=Wrong())


@defect(STORES, what="the digest in the metadata is of something else")
def stores_wrong_digest() -> Policies:
    class Wrong(StorePolicy):
        def metadata_text(self, data: bytes, metadata: dict[str, Any]) -> bytes:
            return super().metadata_text(data + b"\0", metadata)

    return Policies(store=Wrong())


@defect(STORES, what="the metadata does not name the object")
def stores_without_name() -> Policies:
    class Wrong(StorePolicy):
        def metadata_text(self, data: bytes, metadata: dict[str, Any]) -> bytes:
            return super().metadata_text(data, {**metadata, "binFileName": "kernel"})

    return Policies(store=Wrong())


@defect(STORES, "cache-mode/transparent", what="what is stored is not quite what was delivered")
def stores_another_object() -> Policies:
    class Wrong(StorePolicy):
        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            super().replace_pair(fs, entry, another(data), metadata)

    return Policies(store=Wrong())


@defect("cache-mode/transparent", what="a served kernel is altered on its way out")
def serves_an_altered_kernel() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            return None if data is None else another(data)

    return Policies(lookup=Wrong())


@defect("cache-mode/transparent", what="the kernel of the next entry is served")
def serves_the_neighbour() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            objects = sorted(entry.directory.glob("*.o"))
            if data is None or len(objects) < 2:
                return data
            return objects[objects.index(entry.object) - 1].read_bytes()

    return Policies(lookup=Wrong())


@defect(REUSES, what="nothing is ever served")
def never_hits() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            return None

    return Policies(lookup=Wrong(), store=NeverCurrent())


@defect(REUSES, what="an entry is served once and then removed")
def serves_once() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            if data is not None:
                entry.metadata.unlink()
            return data

    return Policies(lookup=Wrong())


@defect(HEALS, what="what exists is not replaced, damaged or not (T1, T2)")
def damaged_entries_stay() -> Policies:
    class Wrong(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            if keep and (entry.metadata.exists() or entry.object.exists()):
                return True
            return super().publish(fs, entry, data, metadata, keep)

    return Policies(store=Wrong())


@defect(HEALS, what="half an entry is not completed (T1)")
def halves_stay() -> Policies:
    class Wrong(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            if keep and entry.metadata.exists() != entry.object.exists():
                return True
            return super().publish(fs, entry, data, metadata, keep)

    return Policies(store=Wrong())


@defect(HEALS, what="metadata of a wrong type ends the compiler (T21)")
def wrong_types_crash() -> Policies:
    class Wrong(LookupPolicy):
        def metadata_matches(self, metadata: dict[str, Any], expected: dict[str, Any]) -> bool:
            path = metadata["binFileName"] + metadata["binFileSuffix"]
            return bool(path) and metadata == expected

    return Policies(lookup=Wrong())


@defect(HEALS, what="a damaged entry fails the compile until somebody deletes it")
def damaged_entries_fail() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            data = super().find(fs, entry, expected)
            if data is None and entry.metadata.exists():
                raise AtcError("E40021", f"cannot parse [{entry.metadata}].")
            return data

    return Policies(lookup=Wrong())


@defect(HEALS, VERIFY, what="digests are not checked")
def digest_unchecked() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return bool(data)

    return Policies(lookup=Wrong())


@defect(HEALS, what="the digest does not cover the object's last byte")
def digest_without_the_end() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            # The last byte of an object is the high byte of a section header: always 0.
            return super().digest_matches(data[:-1] + b"\0", digest)

    return Policies(lookup=Wrong())


@defect(VERIFY, what="anything that begins like an object is served")
def magic_instead_of_digest() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return data.startswith(b"\x7fELF")

    return Policies(lookup=Wrong())


@defect(HEALS, VERIFY, what="metadata is believed, whatever it names (T19, T20, T21)")
def metadata_is_believed() -> Policies:
    class Wrong(LookupPolicy):
        def verified(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            try:
                metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
            except (OSError, ValueError):
                return None
            needed = ("binFileName", "binFileSuffix", "kernelName", "sha256")
            if not isinstance(metadata, dict) or any(key not in metadata for key in needed):
                return None
            # A name that is no text ends the compiler.
            path = entry.directory / (metadata["binFileName"] + metadata["binFileSuffix"])
            try:
                data = fs.read("lookup.object", path)
            except OSError:
                return None
            digest = metadata["sha256"].lower()
            return data if data and self.digest_matches(data, digest) else None

    return Policies(lookup=Wrong())


class Late(StorePolicy):
    """Comes late to publishing, when other processes have compiled too."""

    def publish(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
    ) -> bool:
        time.sleep(WINDOW)
        return super().publish(fs, entry, data, metadata, keep)


@defect(RACE, what="losing the race for an entry fails the compile")
def lost_race_fails() -> Policies:
    class Wrong(Late):
        def is_current(self, fs: Fs, entry: EntryFiles, metadata: dict[str, Any]) -> bool:
            if super().is_current(fs, entry, metadata):
                raise AtcError("E40021", f"[{entry.metadata}] exists already.")
            return False

    return Policies(store=Wrong())


@defect(RACE, what="the loser of a race leaves its temporary file behind (T15, T16)")
def loser_leaves_residue() -> Policies:
    class Wrong(Late):
        def is_current(self, fs: Fs, entry: EntryFiles, metadata: dict[str, Any]) -> bool:
            fs.temporary_path(entry.object).touch()
            return super().is_current(fs, entry, metadata)

    return Policies(store=Wrong())


@defect(RACE, what="writers without a lock append to one file")
def writers_append() -> Policies:
    class Unlocked(Fs):
        @contextmanager
        def lock(self, point: str, path: Path, patience: float = 0.0) -> Iterator[None]:
            yield

    class Wrong(Late):
        def is_current(self, fs: Fs, entry: EntryFiles, metadata: dict[str, Any]) -> bool:
            return False

        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            entry.object.unlink(missing_ok=True)
            time.sleep(WINDOW)
            with entry.object.open("ab") as file:
                file.write(data)
            entry.metadata.write_bytes(self.metadata_text(data, metadata))

    return Policies(store=Wrong(), fs=Unlocked())


@defect("cache-mode/parallel-force", what="while one process forces, others fail (T14)")
def force_refuses_company() -> Policies:
    class Wrong(PurgePolicy):
        def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
            if (kernel_cache / "forcing.lock").exists():
                raise AtcError("E40023", f"[{kernel_cache}] is being refreshed.")
            return super().upgrade(fs, kernel_cache, stamp)

        def force(self, fs: Fs, soc_directory: Path) -> bool:
            marker = soc_directory.parent / "forcing.lock"
            marker.touch()
            time.sleep(WINDOW)
            marker.unlink(missing_ok=True)
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect("cache-mode/parallel-force", what="force takes the directory away from under others")
def force_removes_the_directory() -> Policies:
    class WrongPurge(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            time.sleep(os.getpid() % 4 * WINDOW)
            shutil.rmtree(soc_directory, ignore_errors=True)
            time.sleep(WINDOW)
            soc_directory.mkdir(parents=True, exist_ok=True)
            return True

    class WrongStore(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            time.sleep(WINDOW)
            if not super().publish(fs, entry, data, metadata, keep):
                raise AtcError("E40023", f"[{entry.directory}] is gone.")
            return True

    return Policies(purge=WrongPurge(), store=WrongStore())


@defect(MODES, what="files are open to everyone")
def files_for_everyone() -> Policies:
    class Wrong(Fs):
        file_mode = 0o666

    return Policies(fs=Wrong())


@defect(MODES, what="directories are open to everyone")
def directories_for_everyone() -> Policies:
    class Wrong(Fs):
        directory_mode = 0o777

    return Policies(fs=Wrong())


@defect(MODES, what="a statistics file is dropped in the working directory")
def working_directory_litter() -> Policies:
    class Wrong(OutputPolicy):
        def deliver(self, output: Path, index: int, model: Model) -> Path:
            Path("fusion_result.json").write_text(json.dumps({"operators": index + 1}))
            return super().deliver(output, index, model)

    return Policies(outputs=Wrong())


@defect(MODES, what="entries become writable by everyone when they are replaced")
def replaced_files_for_everyone() -> Policies:
    class Wrong(StorePolicy):
        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            super().replace_pair(fs, entry, data, metadata)
            entry.object.chmod(entry.object.stat().st_mode | stat.S_IWOTH)

    return Policies(store=Wrong())


@defect(HEALS, what="an object without metadata is served for one operator type")
def half_an_entry_of_sqrt_is_served() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            alone = entry.object.is_file() and not entry.metadata.exists()
            if alone and entry.stem.startswith("te_sqrt_"):
                return entry.object.read_bytes()
            return super().find(fs, entry, expected)

    return Policies(lookup=Wrong())


@defect(HEALS, what="digests of objects larger than 2 KB are not checked")
def large_objects_unverified() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return len(data) > 2048 or super().digest_matches(data, digest)

    return Policies(lookup=Wrong())


@defect(MODES, what="what a rank keeps is open to everyone")
def rank_files_open_to_all() -> Policies:
    class Wrong(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            path = super().write_temporary(point, target, data)
            if point.startswith("meta."):
                path.chmod(0o666)
            return path

    return Policies(fs=Wrong())
