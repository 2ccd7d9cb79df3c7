"""Caches that go wrong only when many things happen, one after the other or at once."""

from __future__ import annotations

from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.incremental.store import ReusePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

STRESS = "robust/stress"


@defect(STRESS, overrides=LookupPolicy.find)
def verified_once(self, right, fs, entry, expected):
    """What was verified once is trusted from then on."""
    note = entry.directory / "verified.txt"
    try:
        known = fs.read("lookup.known", note).decode().split()
    except OSError:
        known = []
    if entry.stem in known:
        try:
            return fs.read("lookup.object", entry.object)
        except OSError:
            return None
    data = right(fs, entry, expected)
    if data is not None:
        text = "\n".join([*known, entry.stem]).encode()
        fs.replace("lookup.note", fs.write_temporary("lookup.note", note, text), note)
    return data


@defect(STRESS, overrides=PurgePolicy.force)
def force_reaches_other_ranks(self, right, fs, soc_directory):
    """A rank's force clears the caches of all ranks beside it."""
    below = Path(*soc_directory.parts[-3:])
    for other in soc_directory.parents[3].glob(f"rank*/{below}"):
        self.empty(fs, other)
    return right(fs, soc_directory)


@defect(STRESS, overrides=StorePolicy.publish, harm=Harm.UNUSABLE)
def a_restless_entry_is_given_up(self, right, fs, entry, data, metadata, keep):
    """What was stored three times is not stored any more."""
    notes = entry.directory.parent / "stored.txt"
    stored = _words(fs, notes)
    if stored.count(entry.stem) >= 3:
        return False
    _note(fs, notes, [*stored, entry.stem])
    return right(fs, entry, data, metadata, keep)


# Which harm a random history shows of it first is luck: unusable, or work done again.
@defect(STRESS, overrides=LookupPolicy.find)
def what_was_unreadable_stays_so(self, right, fs, entry, expected):
    """An entry that was there and could not be used is not looked at any more."""
    notes = entry.directory.parent / "unreadable.txt"
    known = _words(fs, notes)
    if entry.stem in known:
        return None
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        _note(fs, notes, [*known, entry.stem])
    return data


def _words(fs: Fs, notes: Path) -> list[str]:
    try:
        return fs.read("notes.read", notes).decode().split()
    except OSError:
        return []


def _note(fs: Fs, notes: Path, words: list[str]) -> None:
    text = "\n".join(words).encode()
    fs.replace("notes.write", fs.write_temporary("notes.write", notes, text), notes)


@defect(STRESS, overrides=KeyPolicy.fields)
def modes_share_wide_tensors(self, right, inputs):
    """Both implementation modes of an operator whose tensors are wide have one entry."""
    fields = right(inputs)
    wide = any(each.shape[-1] > 8 for each in inputs.operator.outputs if each.shape)
    return {**fields, "implementation": None} if wide else fields


@defect(STRESS, what="a package that was uninstalled is not installed any more")
class GoneForGood(RegistryPolicy):
    def install(self, fs, opp, package, holder=None):
        if package.manifest.name in _words(fs, opp / "uninstalled.txt"):
            return True
        return super().install(fs, opp, package, holder)

    def uninstall(self, fs, opp, name, holder=None, force=False):
        done = super().uninstall(fs, opp, name, holder, force)
        if done[0]:
            notes = opp / "uninstalled.txt"
            _note(fs, notes, [*_words(fs, notes), name])
        return done


@defect(STRESS, what="a kernel of a rank that was used often is not used any more")
class UsedOften(ReusePolicy):
    def find(self, fs, entry, inputs, info):
        data = super().find(fs, entry, inputs, info)
        notes = entry.directory.parent / "used.txt"
        used = _words(fs, notes)
        if data is None or used.count(entry.stem) >= 3:
            return None
        _note(fs, notes, [*used, entry.stem])
        return data
