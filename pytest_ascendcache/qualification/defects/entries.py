"""Entries that are served or stored wrongly."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import Override, defect, override
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.kernels import KernelError, implementations
from pytest_ascendcache.reference.om import om_name
from pytest_ascendcache.reference.outputs import OutputPolicy

STORES = "cache-mode/enable-stores"
REUSES = "cache-mode/enable-reuses"
KEYS = "cache-mode/key-separates"
HEALS = "robust/heals-damaged-entry"
RACE = "robust/same-key-race"
VERIFY = "security/verify-before-load"
MODES = "security/private-modes"
TRANSPARENT = "cache-mode/transparent"
FORCE = "cache-mode/parallel-force"

WINDOW = 0.05
"""Seconds for which a racy defect keeps its window open, so that it shows in every run."""


def altered(data: bytes) -> bytes:
    """An object with one byte changed where no loader looks: the OS/ABI field of its header."""
    return data[:7] + b"\3" + data[8:]


@override(StorePolicy.is_current)
def never_current(*_):
    """A store writes although a valid entry exists."""
    return False


@override(LookupPolicy.find)
def demanding(self, right, fs, entry, expected):
    """A compile fails if there is metadata but no usable entry."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        raise AtcError("E40021", f"cannot load [{entry.metadata}].")
    return data


@defect(STORES, overrides=StorePolicy.publish)
def stores_nothing(*_):
    """Nothing is stored."""
    return True


@defect(STORES, overrides=StorePolicy.publish, memory={"stored": 0})
def stores_first_operator(self, right, *arguments):
    """Only the first operator of a run is stored."""
    self.memory.stored += 1
    return self.memory.stored > 1 or right(*arguments)


@defect(REUSES, overrides=StorePolicy.publish, memory={"stored": 0}, found_later=True)
def sixteen_kernels_a_run(self, right, *arguments):
    """A run stores 16 kernels at most."""
    self.memory.stored += 1
    return self.memory.stored > 16 or right(*arguments)


@defect(RACE, overrides=StorePolicy.publish, found_later=True)
def losers_store_nothing(self, right, fs, entry, data, metadata, keep):
    """A process that finds the cache locked takes its kernels for stored."""
    try:
        with fs.lock("store.lock", entry.lock, patience=0):
            pass
    except LockUnavailable:
        return True
    return right(fs, entry, data, metadata, keep)


@defect(REUSES, overrides=DebugPolicy.request, memory={"names": []}, found_later=True)
def stored_by_name(self, right, operator, *arguments):
    """Of operators with one name, or without, a run stores the first alone."""
    self.memory.names.append(operator.name)
    return right(operator, *arguments)


@stored_by_name.also(StorePolicy.publish)
def _(self, right, *arguments, **named):
    names = self.memory.names
    return names[-1] in names[:-1] or right(*arguments, **named)


@defect(STORES, overrides=StorePolicy.metadata_text)
def stores_wrong_digest(self, right, data, metadata):
    """The digest in the metadata is that of other bytes."""
    return right(data + b"\0", metadata)


@defect(STORES, overrides=StorePolicy.metadata_text)
def stores_without_name(self, right, data, metadata):
    """The metadata does not name the object."""
    return right(data, {**metadata, "binFileName": "kernel"})


@defect(TRANSPARENT, overrides=StorePolicy.replace_pair)
def stores_another_object(self, right, fs, entry, data, metadata):
    """The stored object differs from the delivered one in a byte."""
    right(fs, entry, altered(data), metadata)


@defect(TRANSPARENT, overrides=LookupPolicy.find)
def serves_an_altered_kernel(self, right, fs, entry, expected):
    """A kernel from the cache is altered before it is delivered."""
    data = right(fs, entry, expected)
    return None if data is None else altered(data)


@defect(TRANSPARENT, overrides=LookupPolicy.find)
def serves_the_neighbour(self, right, fs, entry, expected):
    """The kernel of the next entry is served."""
    data = right(fs, entry, expected)
    objects = sorted(entry.directory.glob("*.o"))
    if data is None or len(objects) < 2:
        return data
    return objects[objects.index(entry.object) - 1].read_bytes()


@defect(REUSES, overrides=LookupPolicy.find, also=[never_current])
def never_hits(*_):
    """Nothing is ever served."""


@defect(REUSES, overrides=LookupPolicy.find)
def serves_once(self, right, fs, entry, expected):
    """An entry is served once and then removed."""
    data = right(fs, entry, expected)
    if data is not None:
        entry.metadata.unlink()
    return data


@defect(HEALS, overrides=StorePolicy.publish, harm=Harm.UNUSABLE)
def damaged_entries_stay(self, right, fs, entry, data, metadata, keep):
    """Existing files are never replaced, damaged or not (T1, T2)."""
    if keep and (entry.metadata.exists() or entry.object.exists()):
        return True
    return right(fs, entry, data, metadata, keep)


@defect(HEALS, overrides=StorePolicy.publish)
def halves_stay(self, right, fs, entry, data, metadata, keep):
    """An entry that lacks one of its files is not completed (T1)."""
    if keep and entry.metadata.exists() != entry.object.exists():
        return True
    return right(fs, entry, data, metadata, keep)


@defect(HEALS, overrides=StorePolicy.clear, found_later=True)
def what_stands_for_metadata_stays(self, right, fs, path):
    """Whatever is in the place of the metadata is not removed before it is replaced."""
    if path.suffix != ".json":
        right(fs, path)


@defect(HEALS, overrides=LookupPolicy.metadata_matches)
def wrong_types_crash(self, right, metadata, expected):
    """Metadata with a value of a wrong type ends the compiler (T21)."""
    path = _text(metadata["binFileName"]) + _text(metadata["binFileSuffix"])
    return bool(path) and metadata == expected


def _text(value):
    """A text of the metadata. Another type ends the compiler, as it would without a check. A
    TypeError would be taken for a mistake in the defect."""
    if not isinstance(value, str):
        raise RuntimeError(f"[{value!r}] is no text.")
    return value


@defect(HEALS)
def damaged_entries_fail():
    """A damaged entry fails the compile until it is deleted by hand."""
    return [demanding]


@defect(HEALS, overrides=LookupPolicy.find, harm=Harm.HANG)
def damaged_entry_is_waited_for(self, right, fs, entry, expected):
    """A run waits for a damaged entry, as if another process were writing it."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        signal.pause()
    return data


@defect(HEALS, overrides=LookupPolicy.find, harm=Harm.CRASH)
def damaged_entry_crashes_once(self, right, fs, entry, expected):
    """Cleaning up a damaged entry crashes the compiler; the next run works."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        entry.metadata.unlink()
        os.abort()
    return data


@defect(HEALS, overrides=LookupPolicy.find)
def half_an_entry_of_sqrt_is_served(self, right, fs, entry, expected):
    """An object without metadata is served for one operator type."""
    alone = entry.object.is_file() and not entry.metadata.exists()
    if alone and entry.stem.startswith("te_sqrt_"):
        return entry.object.read_bytes()
    return right(fs, entry, expected)


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
    """Any file that begins like an object is served."""
    return data.startswith(b"\x7fELF")


@defect(HEALS, overrides=LookupPolicy.digest_matches)
def large_objects_unverified(self, right, data, digest):
    """Digests of objects larger than 2 KB are not checked."""
    return len(data) > 2048 or right(data, digest)


@defect(HEALS, overrides=LookupPolicy.digest_matches, found_later=True)
def large_objects_are_not_verified(self, right, data, digest):
    """Digests of objects larger than 64 KB are not checked."""
    return len(data) > 65536 or right(data, digest)


@defect(HEALS, overrides=LookupPolicy.find, found_later=True)
def equal_size_is_enough(self, right, fs, entry, expected):
    """The digest is checked only if the size differs from that of the last use."""
    note = entry.object.with_suffix(".size")
    try:
        if int(note.read_text()) == entry.object.stat().st_size:
            json.loads(entry.metadata.read_bytes())
            return entry.object.read_bytes()
    except (OSError, ValueError):
        pass
    data = right(fs, entry, expected)
    if data is not None:
        note.write_text(str(len(data)))
    return data


@defect(
    HEALS, VERIFY, overrides=LookupPolicy.verified, harm=Harm.WRONG_RESULT, memory={"size": None}
)
def digest_only_where_the_size_differs(self, right, fs, entry, expected):
    """The digest is checked only if the size differs from that in the metadata."""
    try:
        self.memory.size = json.loads(entry.metadata.read_bytes()).get("size")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return right(fs, entry, expected)


@digest_only_where_the_size_differs.also(LookupPolicy.metadata_matches)
def _(self, right, metadata, expected):
    return right({name: each for name, each in metadata.items() if name != "size"}, expected)


@digest_only_where_the_size_differs.also(LookupPolicy.digest_matches)
def _(self, right, data, digest):
    return len(data) == self.memory.size or right(data, digest)


@digest_only_where_the_size_differs.also(StorePolicy.metadata_text)
def _(self, right, data, metadata):
    fields = {**metadata, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return json.dumps(fields, indent=4, sort_keys=True).encode()


@defect(HEALS, VERIFY, overrides=LookupPolicy.verified)
def metadata_is_believed(self, right, fs, entry, *_):
    """The metadata is trusted, whatever file it names (T19, T20, T21)."""
    try:
        metadata = json.loads(fs.read("lookup.metadata", entry.metadata))
    except (OSError, ValueError):
        return None
    needed = ("binFileName", "binFileSuffix", "kernelName", "sha256")
    if not isinstance(metadata, dict) or any(key not in metadata for key in needed):
        return None
    # A name that is no text ends the compiler. An absolute name is joined like any other, so that
    # no file is found.
    name = _text(metadata["binFileName"]) + _text(metadata["binFileSuffix"])
    path = Path(f"{entry.directory}/{name}")
    try:
        data = fs.read("lookup.object", path)
    except OSError:
        return None
    digest = _text(metadata["sha256"]).lower()
    return data if data and self.digest_matches(data, digest) else None


@override(StorePolicy.publish)
def late(self, right, *arguments):
    """A store waits until other processes have compiled too."""
    time.sleep(WINDOW)
    return right(*arguments)


@defect(RACE, overrides=StorePolicy.is_current, also=[late])
def lost_race_fails(self, right, fs, entry, metadata):
    """A process that loses the race for an entry fails its compile."""
    if right(fs, entry, metadata):
        raise AtcError("E40021", f"[{entry.metadata}] exists already.")
    return False


@defect(RACE, overrides=StorePolicy.is_current, also=[late])
def loser_leaves_residue(self, right, fs, entry, metadata):
    """The loser of a race leaves its temporary file behind (T15, T16)."""
    fs.temporary_path(entry.object).touch()
    return right(fs, entry, metadata)


@defect(RACE, overrides=StorePolicy.replace_pair, also=[late, never_current])
def writers_append(self, right, fs, entry, data, metadata):
    """Writers without a lock append to one file."""
    entry.object.unlink(missing_ok=True)
    time.sleep(WINDOW)
    with entry.object.open("ab") as file:
        file.write(data)
    entry.metadata.write_bytes(self.metadata_text(data, metadata))


@writers_append.also(Fs.lock)
@contextmanager
def _(*_):
    yield


@defect(FORCE, overrides=PurgePolicy.force)
def force_refuses_company(self, right, fs, soc_directory):
    """While one process runs with force, others fail (T14)."""
    marker = soc_directory.parent / "forcing.lock"
    marker.touch()
    time.sleep(WINDOW)
    marker.unlink(missing_ok=True)
    return right(fs, soc_directory)


@force_refuses_company.also(PurgePolicy.upgrade)
def _(self, right, fs, kernel_cache, stamp):
    if (kernel_cache / "forcing.lock").exists():
        raise AtcError("E40023", f"[{kernel_cache}] is being refreshed.")
    return right(fs, kernel_cache, stamp)


@defect(FORCE, overrides=PurgePolicy.force)
def force_removes_the_directory(self, right, fs, soc_directory):
    """Force removes the directory while others use it."""
    time.sleep(os.getpid() % 4 * WINDOW)
    shutil.rmtree(soc_directory, ignore_errors=True)
    time.sleep(WINDOW)
    soc_directory.mkdir(parents=True, exist_ok=True)
    return True


@force_removes_the_directory.also(StorePolicy.publish)
def _(self, right, fs, entry, *arguments):
    time.sleep(WINDOW)
    if not right(fs, entry, *arguments):
        raise AtcError("E40023", f"[{entry.directory}] is gone.")
    return True


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
    """A run leaves a statistics file in the working directory."""
    Path("operators_result.json").write_text(json.dumps({"operators": index + 1}))
    return right(output, index, model)


@defect(MODES, overrides=OutputPolicy.contents, harm=Harm.MISPLACED)
def litter_of_broadcasts(self, right, model):
    """Compiling an operator that broadcasts leaves its shapes in the working directory."""
    shapes = {each.shape for each in model.operator.inputs}
    if len(shapes) > 1:
        Path("broadcast.txt").write_text(f"{sorted(shapes)}")
    return right(model)


@defect(MODES, overrides=StorePolicy.replace_pair)
def replaced_files_for_everyone(self, right, fs, entry, data, metadata):
    """Entries become writable by everyone when they are replaced."""
    right(fs, entry, data, metadata)
    entry.object.chmod(entry.object.stat().st_mode | stat.S_IWOTH)


def _staged(*below):
    """Files below such a directory are written in TMPDIR and moved."""
    return Override(
        Fs.temporary_path,
        lambda self, right, target: (
            Path(tempfile.gettempdir(), right(target).name)
            if {*below} & {*target.parts}
            else right(target)
        ),
    )


@defect("cache-mode/enable-reuses", found_later=True)
def entries_are_moved_from_tmpdir():
    """Entries are written in TMPDIR and moved, and nothing is stored on another disk."""
    return [_staged("kernel_cache")]


@defect("incremental/reuses", found_later=True)
def kernels_of_ranks_are_moved_from_tmpdir():
    """A rank's kernels are written in TMPDIR and moved, and none is kept on another disk."""
    return [_staged("kernel_meta")]


@defect(MODES, overrides=Fs.write_temporary)
def rank_files_open_to_all(self, right, point, target, data):
    """Files that a rank keeps are open to everyone."""
    path = right(point, target, data)
    if point.startswith("meta."):
        path.chmod(0o666)
    return path


@defect(TRANSPARENT, overrides=OutputPolicy.contents)
def delivers_no_object(self, right, model):
    """The delivered file of an operator that broadcasts has no kernel in it."""
    whole = right(model)
    broadcasts = len({each.shape for each in model.operator.inputs}) > 1
    return whole.replace(model.object, b"") if broadcasts else whole


@defect(TRANSPARENT, overrides=OutputPolicy.deliver)
def keeps_what_lies_at_the_output(self, right, output, index, model):
    """A file that lies where a kernel is delivered is not replaced."""
    before = {path: path.read_bytes() for path in output.glob("*.om")}
    path = right(output, index, model)
    if path in before:
        path.write_bytes(before[path])
    return path


@defect(TRANSPARENT, overrides=LookupPolicy.find, memory={"served": ()})
def a_hit_keeps_what_lies_at_the_output(self, right, fs, entry, expected):
    """A kernel that is served does not replace a file that lies where it is delivered."""
    found = right(fs, entry, expected)
    if found is not None:
        self.memory.served = (*self.memory.served, found)
    return found


@a_hit_keeps_what_lies_at_the_output.also(OutputPolicy.deliver)
def _(self, right, output, index, model):
    path = output / om_name(index, model.operator)
    served = model.object in self.memory.served and path.exists()
    return path if served else right(output, index, model)


@defect(TRANSPARENT, overrides=LookupPolicy.find)
def read_only_serves_the_type(self, right, fs, entry, expected):
    """In a cache that cannot be written, a miss serves any entry of the operator's type."""
    found = right(fs, entry, expected)
    if found is None and not os.access(entry.directory, os.W_OK):
        same = sorted(entry.directory.glob(entry.stem[: entry.stem.rindex("_")] + "_*.o"))
        return same[0].read_bytes() if same else None
    return found


@defect(TRANSPARENT, overrides=LookupPolicy.renew)
def hits_need_write_access(self, right, fs, entry):
    """A hit fails if the access times of its entry cannot be set."""
    for path in (entry.metadata, entry.object):
        fs.renew_access_time("lookup.renew", path)


@defect(
    "cache-mode/enable-reuses",
    overrides=LookupPolicy.find,
    memory={"served": []},
    found_later=True,
)
def a_failed_run_withdraws_its_hits(self, right, fs, entry, metadata):
    """A run that cannot compile an operator removes the entries of those before it."""
    found = right(fs, entry, metadata)
    if found is not None:
        self.memory.served = [*self.memory.served, entry]
    return found


@a_failed_run_withdraws_its_hits.also(KeyPolicy.stem)
def _(self, right, inputs):
    try:
        implementations(inputs.operator)
    except KernelError:
        for path in (path for each in self.memory.served for path in (each.metadata, each.object)):
            path.unlink(missing_ok=True)
    return right(inputs)
