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


def _noted(fs: Fs, notes: Path) -> list[str]:
    """The words that earlier runs noted in a file, none if there is no such file."""
    try:
        return fs.read("notes.read", notes).decode().split()
    except OSError:
        return []


def _note(fs: Fs, notes: Path, words: list[str]) -> None:
    fs.write_whole("notes.write", notes, "\n".join(words).encode())


@defect(STRESS, overrides=LookupPolicy.find)
def verified_once(self, right, fs, entry, expected):
    """An entry that was verified once is trusted from then on."""
    notes = entry.directory / "verified.txt"
    known = _noted(fs, notes)
    if entry.stem in known:
        try:
            return fs.read("lookup.object", entry.object)
        except OSError:
            return None
    data = right(fs, entry, expected)
    if data is not None:
        _note(fs, notes, [*known, entry.stem])
    return data


@defect(STRESS, overrides=PurgePolicy.force)
def force_reaches_other_ranks(self, right, fs, soc_directory):
    """A rank's force purges the caches of all ranks next to it."""
    below = Path(*soc_directory.parts[-3:])
    for other in soc_directory.parents[3].glob(f"rank*/{below}"):
        self.empty(fs, other)
    return right(fs, soc_directory)


@defect(STRESS, overrides=StorePolicy.publish, harm=Harm.UNUSABLE)
def a_restless_entry_is_given_up(self, right, fs, entry, *arguments):
    """An entry that was stored three times is not stored any more."""
    notes = entry.directory.parent / "stored.txt"
    stored = _noted(fs, notes)
    if stored.count(entry.stem) >= 3:
        return False
    _note(fs, notes, [*stored, entry.stem])
    return right(fs, entry, *arguments)


# No harm is claimed: a random history may show either that the entry is unusable or lost work.
@defect(STRESS, overrides=LookupPolicy.find)
def what_was_unreadable_stays_so(self, right, fs, entry, expected):
    """An entry that could not be used once is not read any more."""
    notes = entry.directory.parent / "unreadable.txt"
    known = _noted(fs, notes)
    if entry.stem in known:
        return None
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        _note(fs, notes, [*known, entry.stem])
    return data


@defect(STRESS, overrides=KeyPolicy.fields)
def modes_share_wide_tensors(self, right, inputs):
    """Both implementation modes share an entry if an output has more than 8 columns."""
    fields = right(inputs)
    wide = any(each.shape[-1] > 8 for each in inputs.operator.outputs if each.shape)
    return {**fields, "implementation": None} if wide else fields


@defect(STRESS, overrides=RegistryPolicy.install)
def gone_for_good(self, right, fs, opp, package, holder=None):
    """A package that was uninstalled once is not installed any more."""
    if package.manifest.name in _noted(fs, opp / "uninstalled.txt"):
        return True
    return right(fs, opp, package, holder)


@gone_for_good.also(RegistryPolicy.uninstall)
def _(self, right, fs, opp, name, *arguments):
    done = right(fs, opp, name, *arguments)
    if done[0]:
        notes = opp / "uninstalled.txt"
        _note(fs, notes, [*_noted(fs, notes), name])
    return done


@defect(STRESS, overrides=ReusePolicy.find)
def used_often(self, right, fs, entry, *arguments):
    """A kernel of a rank that was reused three times is not reused any more."""
    data = right(fs, entry, *arguments)
    notes = entry.directory.parent / "used.txt"
    used = _noted(fs, notes)
    if data is None or used.count(entry.stem) >= 3:
        return None
    _note(fs, notes, [*used, entry.stem])
    return data
