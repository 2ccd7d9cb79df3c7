"""What shows in some surroundings or at some scale only: the suite had one of each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy, Unit
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.policies import Policies

PLACE = "cache-mode/directory-precedence"
REUSES = "cache-mode/enable-reuses"
PURGES = "cache-mode/force-purges-soc"
STAMP = "robust/upgrade-stamp"
OLDEST = "aging/oldest-first"
HEALS = "robust/heals-damaged-entry"
Environment = Mapping[str, str]


def _root(change: Callable[[Path, str, Environment], Path]) -> Policies:
    """Another directory than the one that was named."""

    class Wrong(DirectoryPolicy):
        def root(self, option: str, environ: Environment) -> Path:
            return change(super().root(option, environ), option, environ)

    return Policies(directory=Wrong())


@defect(PLACE, what="HOME has to be set although the option is given", found_later=True)
def home_is_needed() -> Policies:
    return _root(lambda root, option, environ: root if "HOME" in environ else Path("/nonexistent"))


@defect(PLACE, what="a relative ASCEND_CACHE_PATH is below HOME", found_later=True)
def relative_variable_below_home() -> Policies:
    def below(root: Path, option: str, environ: Environment) -> Path:
        text = environ.get("ASCEND_CACHE_PATH", "")
        if option or not text or Path(text).is_absolute():
            return root
        return Path(environ["HOME"]) / text

    return _root(below)


@defect(PLACE, what="an empty ASCEND_CACHE_PATH is the working directory", found_later=True)
def empty_variable_is_here() -> Policies:
    def here(root: Path, option: str, environ: Environment) -> Path:
        return Path.cwd() if not option and environ.get("ASCEND_CACHE_PATH") == "" else root

    return _root(here)


@defect(PLACE, what="a long directory is replaced by a shorter one", found_later=True)
def long_directory_is_cut() -> Policies:
    return _root(lambda root, option, environ: Path(str(root)[:200]))


@defect(PLACE, what="letters beyond ASCII are dropped from the directory", found_later=True)
def directory_of_ascii() -> Policies:
    return _root(lambda root, option, environ: Path(str(root).encode("ascii", "ignore").decode()))


@defect(PLACE, what="a directory that is a link is not used", found_later=True)
def linked_directory_is_not_used() -> Policies:
    def real(root: Path, option: str, environ: Environment) -> Path:
        return root.with_name(f"{root.name}-not-a-link") if root.is_symlink() else root

    return _root(real)


@defect(PLACE, what="op_cache.ini of ASCEND_CACHE_PATH counts beside the option", found_later=True)
def limits_of_the_variable() -> Policies:
    class Wrong(LimitPolicy):
        def places(self, root: Path, kernel_cache: Path) -> tuple[Path, ...]:
            own = super().places(root, kernel_cache)
            text = os.environ.get("ASCEND_CACHE_PATH", "")
            return (Path(text) / "op_cache.ini", *own) if text else own

    return Policies(limits=Wrong())


@defect(REUSES, what="the locale is in the key", found_later=True)
def locale_in_key() -> Policies:
    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return {**super().fields(inputs), "locale": os.environ.get("LC_ALL", "")}

    return Policies(key=Wrong())


def _purge(spared: Callable[[os.DirEntry[str]], bool]) -> Policies:
    """Purging leaves some things where they are."""

    class Wrong(PurgePolicy):
        def remove(self, fs: Fs, entry: os.DirEntry[str]) -> None:
            if not spared(entry):
                super().remove(fs, entry)

    return Policies(purge=Wrong())


@defect(REUSES, what="force leaves files of the future", found_later=True)
def force_spares_the_future() -> Policies:
    return _purge(lambda entry: entry.stat(follow_symlinks=False).st_mtime > time.time())


@defect(REUSES, what="force leaves files that are older than a day", found_later=True)
def force_spares_the_old() -> Policies:
    return _purge(lambda entry: entry.stat(follow_symlinks=False).st_mtime < time.time() - 86400)


@defect(REUSES, what="a second force within a second purges nothing", found_later=True)
def second_force_purges_nothing() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            mark = soc_directory.parent / f".{soc_directory.name}.purged"
            if mark.exists() and time.time() - mark.stat().st_mtime < 1:
                return True
            mark.touch()
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect(PURGES, what="force removes 64 files at most", found_later=True)
def force_removes_64_files() -> Policies:
    removed = iter(range(64))
    return _purge(lambda entry: next(removed, None) is None)


@defect(STAMP, what="another version empties two chips at most", found_later=True)
def upgrade_of_two_chips() -> Policies:
    class Wrong(PurgePolicy):
        def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
            self.chips = 0
            return super().upgrade(fs, kernel_cache, stamp)

        def force(self, fs: Fs, soc_directory: Path) -> bool:
            self.chips = getattr(self, "chips", -1000) + 1
            return self.chips > 2 or super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect(OLDEST, what="aging looks at 128 entries", found_later=True)
def aging_looks_at_128_entries() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return super().order(sorted(units, key=lambda unit: unit.files[0].path)[:128])

    return Policies(aging=Wrong())


@defect(HEALS, what="objects beyond 64 KB are not verified", found_later=True)
def large_objects_are_not_verified() -> Policies:
    class Wrong(LookupPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return len(data) > 65536 or super().digest_matches(data, digest)

    return Policies(lookup=Wrong())


@defect(HEALS, what="a digest is looked at only where the size differs", found_later=True)
def equal_size_is_enough() -> Policies:
    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            note = entry.object.with_suffix(".size")
            try:
                if int(note.read_text()) == entry.object.stat().st_size:
                    json.loads(entry.metadata.read_bytes())
                    return entry.object.read_bytes()
            except (OSError, ValueError):
                pass
            data = super().find(fs, entry, expected)
            if data is not None:
                note.write_text(str(len(data)))
            return data

    return Policies(lookup=Wrong())
