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

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import AtcError
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


@defect(STORES, overrides=StorePolicy.publish)
def stores_nothing(*_):
    """Nothing is stored."""
    return True


@defect(STORES)
class StoresFirstOperator(StorePolicy):
    """Only the first operator of a run is stored."""

    stored = 0

    def publish(self, fs, entry, data, metadata, keep):
        self.stored += 1
        return self.stored > 1 or super().publish(fs, entry, data, metadata, keep)


@defect(STORES, overrides=StorePolicy.metadata_text)
def stores_wrong_digest(self, right, data, metadata):
    """The digest in the metadata is of something else."""
    return right(data + b"\0", metadata)


@defect(STORES, overrides=StorePolicy.metadata_text)
def stores_without_name(self, right, data, metadata):
    """The metadata does not name the object."""
    return right(data, {**metadata, "binFileName": "kernel"})


@defect(STORES, "cache-mode/transparent", overrides=StorePolicy.replace_pair)
def stores_another_object(self, right, fs, entry, data, metadata):
    """What is stored is not quite what was delivered."""
    right(fs, entry, another(data), metadata)


@defect("cache-mode/transparent", overrides=LookupPolicy.find)
def serves_an_altered_kernel(self, right, fs, entry, expected):
    """A served kernel is altered on its way out."""
    data = right(fs, entry, expected)
    return None if data is None else another(data)


@defect("cache-mode/transparent", overrides=LookupPolicy.find)
def serves_the_neighbour(self, right, fs, entry, expected):
    """The kernel of the next entry is served."""
    data = right(fs, entry, expected)
    objects = sorted(entry.directory.glob("*.o"))
    if data is None or len(objects) < 2:
        return data
    return objects[objects.index(entry.object) - 1].read_bytes()


@defect(REUSES, what="nothing is ever served")
def never_hits() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            return None

    return having(Wrong(), NeverCurrent())


@defect(REUSES, overrides=LookupPolicy.find)
def serves_once(self, right, fs, entry, expected):
    """An entry is served once and then removed."""
    data = right(fs, entry, expected)
    if data is not None:
        entry.metadata.unlink()
    return data


@defect(HEALS, overrides=StorePolicy.publish, harm=Harm.UNUSABLE)
def damaged_entries_stay(self, right, fs, entry, data, metadata, keep):
    """What exists is not replaced, damaged or not (T1, T2)."""
    if keep and (entry.metadata.exists() or entry.object.exists()):
        return True
    return right(fs, entry, data, metadata, keep)


@defect(HEALS, overrides=StorePolicy.publish)
def halves_stay(self, right, fs, entry, data, metadata, keep):
    """Half an entry is not completed (T1)."""
    if keep and entry.metadata.exists() != entry.object.exists():
        return True
    return right(fs, entry, data, metadata, keep)


@defect(HEALS, overrides=LookupPolicy.metadata_matches)
def wrong_types_crash(self, right, metadata, expected):
    """Metadata of a wrong type ends the compiler (T21)."""
    path = _text(metadata["binFileName"]) + _text(metadata["binFileSuffix"])
    return bool(path) and metadata == expected


def _text(value):
    """A text of the metadata. Another type ends the compiler, as it would where nothing looks; a
    TypeError would be taken for a slip in the defect."""
    if not isinstance(value, str):
        raise RuntimeError(f"[{value!r}] is no text.")
    return value


@defect(HEALS, overrides=LookupPolicy.find)
def damaged_entries_fail(self, right, fs, entry, expected):
    """A damaged entry fails the compile until it is deleted by hand."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        raise AtcError("E40021", f"cannot parse [{entry.metadata}].")
    return data


@defect(HEALS, VERIFY, overrides=LookupPolicy.digest_matches, harm=Harm.WRONG_RESULT)
def digest_unchecked(self, right, data, *_):
    """Digests are not checked."""
    return bool(data)


@defect(HEALS, overrides=LookupPolicy.digest_matches)
def digest_without_the_end(self, right, data, digest):
    """The digest does not cover the object's last byte."""
    return right(data[:-1] + b"\0", digest)


@defect(VERIFY, overrides=LookupPolicy.digest_matches)
def magic_instead_of_digest(self, right, data, *_):
    """Anything that begins like an object is served."""
    return data.startswith(b"\x7fELF")


@defect(HEALS, VERIFY, overrides=LookupPolicy.verified)
def metadata_is_believed(self, right, fs, entry, *_):
    """Metadata is believed, whatever it names (T19, T20, T21)."""
    try:
        metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
    except (OSError, ValueError):
        return None
    needed = ("binFileName", "binFileSuffix", "kernelName", "sha256")
    if not isinstance(metadata, dict) or any(key not in metadata for key in needed):
        return None
    # A name that is no text ends the compiler.
    # An absolute one is joined like any other, and leads nowhere.
    name = _text(metadata["binFileName"]) + _text(metadata["binFileSuffix"])
    path = Path(f"{entry.directory}/{name}")
    try:
        data = fs.read("lookup.object", path)
    except OSError:
        return None
    digest = _text(metadata["sha256"]).lower()
    return data if data and self.digest_matches(data, digest) else None


class Late(StorePolicy):
    """Comes late to publishing, when other processes have compiled too."""

    def publish(
        self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
    ) -> bool:
        time.sleep(WINDOW)
        return super().publish(fs, entry, data, metadata, keep)


@defect(RACE)
class LostRaceFails(Late):
    """Losing the race for an entry fails the compile."""

    def is_current(self, fs, entry, metadata):
        if super().is_current(fs, entry, metadata):
            raise AtcError("E40021", f"[{entry.metadata}] exists already.")
        return False


@defect(RACE)
class LoserLeavesResidue(Late):
    """The loser of a race leaves its temporary file behind (T15, T16)."""

    def is_current(self, fs, entry, metadata):
        fs.temporary_path(entry.object).touch()
        return super().is_current(fs, entry, metadata)


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

    return having(Wrong(), Unlocked())


@defect("cache-mode/parallel-force")
class ForceRefusesCompany(PurgePolicy):
    """While one process forces, others fail (T14)."""

    def upgrade(self, fs, kernel_cache, stamp):
        if (kernel_cache / "forcing.lock").exists():
            raise AtcError("E40023", f"[{kernel_cache}] is being refreshed.")
        return super().upgrade(fs, kernel_cache, stamp)

    def force(self, fs, soc_directory):
        marker = soc_directory.parent / "forcing.lock"
        marker.touch()
        time.sleep(WINDOW)
        marker.unlink(missing_ok=True)
        return super().force(fs, soc_directory)


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

    return having(WrongPurge(), WrongStore())


@defect(MODES)
class FilesForEveryone(Fs):
    """Files are open to everyone."""

    file_mode = 0o666


@defect(MODES)
class DirectoriesForEveryone(Fs):
    """Directories are open to everyone."""

    directory_mode = 0o777


@defect(MODES, overrides=OutputPolicy.deliver, harm=Harm.MISPLACED)
def working_directory_litter(self, right, output, index, model):
    """A statistics file is dropped in the working directory."""
    Path("fusion_result.json").write_text(json.dumps({"operators": index + 1}))
    return right(output, index, model)


@defect(MODES, overrides=StorePolicy.replace_pair)
def replaced_files_for_everyone(self, right, fs, entry, data, metadata):
    """Entries become writable by everyone when they are replaced."""
    right(fs, entry, data, metadata)
    entry.object.chmod(entry.object.stat().st_mode | stat.S_IWOTH)


@defect(HEALS, overrides=LookupPolicy.find)
def half_an_entry_of_sqrt_is_served(self, right, fs, entry, expected):
    """An object without metadata is served for one operator type."""
    alone = entry.object.is_file() and not entry.metadata.exists()
    if alone and entry.stem.startswith("te_sqrt_"):
        return entry.object.read_bytes()
    return right(fs, entry, expected)


@defect(HEALS, overrides=LookupPolicy.digest_matches)
def large_objects_unverified(self, right, data, digest):
    """Digests of objects larger than 2 KB are not checked."""
    return len(data) > 2048 or right(data, digest)


@defect(MODES, overrides=Fs.write_temporary)
def rank_files_open_to_all(self, right, point, target, data):
    """What a rank keeps is open to everyone."""
    path = right(point, target, data)
    if point.startswith("meta."):
        path.chmod(0o666)
    return path
