"""The laboratory: runs the command on marked copies of a cache, and sees what came from them.

The user's cache is only read, without moving its times, and nothing is written outside of one
temporary directory.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.caches import Canary, Entry, Snapshot, find_canaries, plant_canary
from pytest_ascendcache.caches.entry import CachedUnit
from pytest_ascendcache.files import read_text
from pytest_ascendcache.processes.ending import in_words
from pytest_ascendcache.processes.launch import Ended, ProcessLauncher
from pytest_ascendcache.release.kernels import copy_file
from pytest_ascendcache.why.request import Attempt, Fix, PlaceOfUse, Trial, UserRequest

_SMALL = 64 << 10
"""Bytes."""


class OutOfBudgetError(Exception):
    """The runs that the user allows are used up."""


class Lab:
    """Runs places, each once, at most ``budget`` of them. ``announce`` is told before each run."""

    def __init__(
        self,
        request: UserRequest,
        directory: Path,
        budget: int,
        seconds: float,
        announce: Callable[[int, int], None],
    ) -> None:
        self.request, self.runs, self.budget = request, 0, budget
        self._directory, self._seconds, self._announce = directory, seconds, announce
        self._launcher = ProcessLauncher({})
        self._known: dict[object, Attempt] = {}
        self._marks: dict[str, Canary] = {}
        self._masters: dict[tuple[Path, str], Path] = {}
        self._twins: dict[object, Mapping[str, str]] = {}
        self.stamps: Mapping[str, str] = {}
        self.expected = 1
        self._whole: dict[str, CachedUnit] = {}
        self.unread: list[Path] = []

    def run(self, place: PlaceOfUse) -> Attempt:
        """The outcome of a place; made now unless it is known. Raises ``OutOfBudgetError``, and
        ``ToolchainError`` if the program cannot be started."""
        if place.key in self._known:
            return self._known[place.key]
        self._count()
        here = self._directory / f"run{self.runs}"
        cache = here / "cache"
        self._prepare(place, cache)
        outcome = self._run(place, here, cache)
        self._known[place.key] = outcome
        return outcome

    def _count(self) -> None:
        if self.runs >= self.budget:
            raise OutOfBudgetError
        self.runs += 1
        self._announce(self.runs, min(max(self.expected, self.runs), self.budget))

    def refilled(self, place: PlaceOfUse, outcome: Attempt) -> Attempt:
        """The outcome of a place on a cache that just its own run ``outcome`` has filled: a
        control of the marks, and of whether the command hits at all."""
        control = replace(place, cache=outcome.kept, fixes=frozenset(), mended=frozenset())
        for entry in control.entries.values():
            self._mark(entry)
        self._masters[(outcome.kept, place.below)] = outcome.kept
        return self.run(control)

    def mend(self, place: PlaceOfUse, outcome: Attempt) -> Mapping[str, str]:
        """Entries that a run compiled again, each with its fault: whole ones are kept and marked,
        so that ``PlaceOfUse.mended`` may name them. Where a run left an entry as it was, the whole
        one comes from a run without it."""
        faults = dict(outcome.rewritten)
        entries = place.interface.read(self._master(place) / place.below)
        stuck = {outcome.keys[name] for name in outcome.missed} & entries.keys() - faults.keys()
        made = [outcome]
        if stuck := stuck - place.mended:
            made.append(self.run(replace(place, without=place.without | stuck)))
            faults |= {stem: "; ".join(entries[stem].problems()) for stem in stuck}
        for each in made:
            for stem, entry in replace(place, cache=each.kept).entries.items():
                if stem in faults and stem in {*each.rewritten, *each.stored} and entry.is_valid:
                    self._mark(entry)
                    self._whole[stem] = entry
        return {stem: fault for stem, fault in faults.items() if stem in self._whole}

    def is_unread(self, place: PlaceOfUse, stem: str = "") -> bool:
        """Whether this user may not read a file of an entry, or without ``stem`` the directory of
        all of them."""
        own = place.cache / place.below
        if not stem:
            return any(own == each or each in own.parents for each in self.unread)
        return any(each.parent == own and each.name.startswith(f"{stem}.") for each in self.unread)

    def _mark(self, entry: CachedUnit) -> None:
        if not isinstance(entry, Entry) or not entry.is_valid or not self.request.interface.is_told:
            return
        if not find_canaries(entry.object_bytes or b"") & self._marks.keys():
            canary = plant_canary(entry)
            self._marks[canary.token] = canary

    def _master(self, place: PlaceOfUse) -> Path:
        """A marked copy of the entries that a run looks at, and of the files that describe the
        cache."""
        root, below = place.cache, place.below
        if (root, below) not in self._masters:
            master = self._directory / f"master{len(self._masters)}"
            (master / below).mkdir(parents=True)
            above = [*reversed([*Path(below).parents])] if place.interface.files_beside else []
            for each in (*above, Path(below)):
                self._copy_files(root / each, master / each)
            for path, directories, _ in os.walk(root / below):
                for name in directories:
                    source = Path(path, name)
                    self._copy_files(source, master / os.path.relpath(source, root))
            for entry in place.interface.read(master / below).values():
                self._mark(entry)
            self._masters[(root, below)] = master
        return self._masters[(root, below)]

    def _copy_files(self, source: Path, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not os.access(source, os.R_OK | os.X_OK):
            self.unread.append(source)
            return
        for entry in os.scandir(source) if source.is_dir() else ():
            if entry.is_file(follow_symlinks=False):
                self._copied(Path(entry.path), target)

    def _copied(self, path: Path, directory: Path) -> None:
        try:
            copy_file(path, directory)
        except OSError:
            (directory / path.name).unlink(missing_ok=True)
            self.unread.append(path)

    def _prepare(self, place: PlaceOfUse, cache: Path) -> None:
        master = self._master(place)
        for path, _, names in os.walk(master):
            target = cache / os.path.relpath(path, master)
            target.mkdir(parents=True)
            for name in names:
                copy_file(Path(path, name), target)
        own = cache / place.below
        for stem in place.mended & self._whole.keys():
            for whole in self._whole[stem].paths:
                target = own / whole.relative_to(self._whole[stem].directory)
                target.unlink(missing_ok=True)
                copy_file(whole, target.parent)
        for stem, entry in place.interface.read(own).items() if place.without else ():
            for each in entry.paths if stem in place.without else ():
                each.unlink(missing_ok=True)
        for name, text in self.stamps.items() if Fix.STAMP in place.fixes else ():
            (cache / name).write_text(text, encoding="utf-8")
        if Fix.TIMES in place.fixes:
            now = time.time_ns()
            for each in own.iterdir():
                os.utime(each, ns=(now, each.stat().st_mtime_ns))
        if (place.cache / place.below).is_symlink() and Fix.LINK not in place.fixes:
            moved = cache / "linked"
            own.rename(moved)
            own.symlink_to(moved)

    def _twin(self, place: PlaceOfUse, here: Path) -> Mapping[str, str]:
        """What the command of a place needs, by name: the entries that it leaves in an empty
        cache."""
        if place.command_key not in self._twins:
            empty = here / "empty"
            (empty / place.below).mkdir(parents=True)
            self._count()
            ended = self._started(place, here / "twin", empty)
            found = place.interface.read(empty / place.below) if ended.returncode == 0 else {}
            numbers: Counter[str] = Counter()
            names = {}
            for stem, entry in sorted(found.items()):
                numbers[entry.operator_type] += 1
                names[f"{entry.operator_type}#{numbers[entry.operator_type]}"] = stem
            self._twins[place.command_key] = names
            shutil.rmtree(empty)
        return self._twins[place.command_key]

    def _started(self, place: PlaceOfUse, here: Path, cache: Path) -> Ended:
        for name in ("out", "work", "home"):
            (here / name).mkdir(parents=True)
        running = self._launcher.start(
            place.interface.command(Trial(place, here, cache, self._marks))
        )
        return running.wait(time.monotonic() + self._seconds)

    def _run(self, place: PlaceOfUse, here: Path, cache: Path) -> Attempt:
        own, read = cache / place.below, place.interface.read
        before = Snapshot.take(own)
        faults = {stem: "; ".join(each.problems()) for stem, each in read(own).items()}
        beside = _beside(cache, place)
        ended = self._started(place, here, cache)
        failure = ""
        if ended.returncode != 0:
            last = "; ".join(each.strip() for each in ended.output.strip().splitlines()[-2:])
            said = f": {last[:300]}" if last else " and printed nothing"
            failure = f"{in_words(ended.returncode, self._seconds)}{said}"
        entries = read(own)
        changed = self._changed(before, Snapshot.take(own))
        renewed = {
            stem: faults[stem]
            for stem, entry in entries.items()
            if stem in faults
            and (
                any(os.path.relpath(path, own) in changed for path in entry.paths)
                or (faults[stem] and entry.is_valid)
            )
        }
        stored = frozenset(entries.keys() - faults.keys())
        served, keys = place.interface.delivered(Trial(place, here, cache, self._marks))
        if not self.request.interface.is_told and not failure:
            named = self._twin(place, here)
            known = {*named.values()}
            more = {stem: stem for stem in (stored | renewed.keys()) - known}
            keys = {**named, **more}
            missed = stored | renewed.keys() | (faults.keys() - entries.keys())
            served = {name: stem not in missed and stem in faults for name, stem in keys.items()}
        outcome = Attempt(
            served=served if not failure else {},
            failure=failure,
            stamps={
                name: (old, new)
                for name, new in _beside(cache, place).items()
                if (old := beside.get(name, "")) != new and old
            },
            rewritten=renewed,
            gone=frozenset(faults.keys() - entries.keys()),
            stored=stored,
            kept=cache,
            keys=keys,
            delivered=served,
        )
        for stem in entries.keys() - outcome.rewritten.keys() - outcome.stored:
            for path in entries[stem].paths:
                path.unlink(missing_ok=True)
        shutil.rmtree(here / "out")
        return outcome

    def _changed(self, before: Snapshot, after: Snapshot) -> set[str]:
        """Files that were written anew. Marked ones differ by content; of others one may be written
        with the same content."""
        return {
            name
            for name, old in before.files.items()
            if (new := after.files.get(name))
            and old.kind == "file"
            and (
                old.sha256 != new.sha256
                or (
                    not self.request.interface.is_told
                    and (old.inode, old.mtime_ns) != (new.inode, new.mtime_ns)
                )
            )
        }


def _beside(cache: Path, place: PlaceOfUse) -> dict[str, str]:
    """The texts of small files above the entries, such as one that names versions."""
    found = {}
    for above in Path(place.below).parents if place.interface.files_beside else ():
        for path in (cache / above).iterdir():
            if path.is_file() and path.stat().st_size <= _SMALL:
                found[str(above / path.name)] = read_text(path, errors="replace")
    return found
