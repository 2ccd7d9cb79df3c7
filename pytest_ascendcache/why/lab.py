"""The laboratory: runs the command on marked copies of a cache, and sees what came from them.

The user's cache is only read, without moving its times, and nothing is written outside of one
temporary directory.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_ascendcache.caches import (
    Canary,
    Entry,
    Snapshot,
    find_canaries,
    plant_canary,
    read_entries,
)
from pytest_ascendcache.observation.model_file import take_apart
from pytest_ascendcache.processes.ending import in_words
from pytest_ascendcache.processes.launch import Command, ProcessLauncher
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import CACHE_PATH
from pytest_ascendcache.release.kernels import KERNEL_CACHE, copy_file
from pytest_ascendcache.why.request import Fix, PlaceOfUse, UserRequest

STAMP = f"{KERNEL_CACHE}/version.info"
_REDIRECTED = ("ASCEND_WORK_PATH", "ASCEND_PROCESS_LOG_PATH", "NPU_COLLECT_PATH", "PARA_DEBUG_PATH")
_WRITTEN = frozenset(("debug_dir", "check_report", "json"))
"""Variables and options that name where a run leaves files beside its output."""


class OutOfBudgetError(Exception):
    """The runs that the user allows are used up."""


@dataclass(frozen=True)
class Attempt:
    """What one run delivered and did to its copy of the cache.

    ``served`` says of each operator whether its kernel came from the cache. ``failure`` says how
    the run failed. ``stamps`` are the texts of the version file before and after. ``rewritten`` are
    entries that were there and were compiled again, each with what had been wrong with it; ``gone``
    were removed, ``stored`` are new. ``kept`` is where the new files of the cache are. ``keys`` are
    the names of kernels by operator, and ``delivered`` is what a run served until it failed.
    """

    served: Mapping[str, bool]
    failure: str
    stamps: tuple[str, str]
    rewritten: Mapping[str, str]
    gone: frozenset[str]
    stored: frozenset[str]
    kept: Path
    keys: Mapping[str, str]
    delivered: Mapping[str, bool]

    @property
    def missed(self) -> frozenset[str]:
        return frozenset(name for name, served in self.served.items() if not served)


class Lab:
    """Runs places, each once, at most ``budget`` of them. ``announce`` is told before each run."""

    def __init__(
        self,
        request: UserRequest,
        directory: Path,
        budget: int,
        seconds: float,
        announce: Callable[[int, int], None] = lambda _run, _most: None,
    ) -> None:
        self.request, self.runs, self.budget = request, 0, budget
        self._directory, self._seconds, self._announce = directory, seconds, announce
        self._launcher = ProcessLauncher({"atc": (str(request.program),)})
        self._known: dict[object, Attempt] = {}
        self._marks: dict[str, Canary] = {}
        self._masters: dict[tuple[Path, str], Path] = {}
        self.stamp = ""
        self.expected = 1
        self._whole: dict[str, Path] = {}
        self.unread: list[str] = []

    def run(self, place: PlaceOfUse) -> Attempt:
        """The outcome of a place; made now unless it is known. Raises ``OutOfBudgetError``, and
        ``ToolchainError`` if the program cannot be started."""
        if place.key in self._known:
            return self._known[place.key]
        if self.runs >= self.budget:
            raise OutOfBudgetError
        self.runs += 1
        self._announce(self.runs, min(max(self.expected, self.runs), self.budget))
        here = self._directory / f"run{self.runs}"
        cache = here / "cache"
        self._prepare(place, cache)
        outcome = self._run(place, here, cache)
        self._known[place.key] = outcome
        return outcome

    def refilled(self, place: PlaceOfUse, outcome: Attempt) -> Attempt:
        """The outcome of a place on a cache that just its own run ``outcome`` has filled: a
        control of the marks, and of whether the command hits at all."""
        own = outcome.kept / KERNEL_CACHE / place.soc
        for entry in read_entries(own).values():
            self._mark(entry)
        control = replace(place, cache=outcome.kept, fixes=frozenset(), mended=frozenset())
        self._masters[(outcome.kept, place.soc)] = outcome.kept
        return self.run(control)

    def mend(self, soc: str, outcome: Attempt) -> frozenset[str]:
        """Mark entries that a run compiled again, so that ``Place.mended`` may name them."""
        for stem, entry in read_entries(outcome.kept / KERNEL_CACHE / soc).items():
            if stem in outcome.rewritten and entry.is_valid:
                self._mark(entry)
                self._whole[stem] = entry.directory
        return frozenset(outcome.rewritten.keys() & self._whole.keys())

    def _mark(self, entry: Entry) -> None:
        if entry.is_valid and not find_canaries(entry.object_bytes or b"") & self._marks.keys():
            canary = plant_canary(entry)
            self._marks[canary.token] = canary

    def _master(self, root: Path, soc: str) -> Path:
        """A marked copy of the entries of one chip, and of the files that describe the cache."""
        if (root, soc) not in self._masters:
            master = self._directory / f"master{len(self._masters)}"
            source = root / KERNEL_CACHE / soc
            (master / KERNEL_CACHE / soc).mkdir(parents=True)
            for directory in (root, root / KERNEL_CACHE, source):
                for entry in os.scandir(directory) if directory.is_dir() else ():
                    if entry.is_file(follow_symlinks=False):
                        below = "" if directory == root else KERNEL_CACHE
                        below = f"{KERNEL_CACHE}/{soc}" if directory == source else below
                        self._copied(Path(entry.path), master / below)
            for each in read_entries(master / KERNEL_CACHE / soc).values():
                self._mark(each)
            self._masters[(root, soc)] = master
        return self._masters[(root, soc)]

    def _copied(self, path: Path, directory: Path) -> None:
        try:
            copy_file(path, directory)
        except OSError:
            (directory / path.name).unlink(missing_ok=True)
            self.unread.append(str(path))

    def _prepare(self, place: PlaceOfUse, cache: Path) -> None:
        master = self._master(place.cache, place.soc)
        for path, _, names in os.walk(master):
            target = cache / os.path.relpath(path, master)
            target.mkdir(parents=True)
            for name in names:
                copy_file(Path(path, name), target)
        own = cache / KERNEL_CACHE / place.soc
        for stem in place.mended:
            for suffix in Entry.suffixes:
                (own / f"{stem}{suffix}").unlink(missing_ok=True)
                copy_file(self._whole[stem] / f"{stem}{suffix}", own)
        if Fix.STAMP in place.fixes and self.stamp:
            (cache / STAMP).write_text(self.stamp, encoding="utf-8")
        if Fix.TIMES in place.fixes:
            now = time.time_ns()
            for each in own.iterdir():
                os.utime(each, ns=(now, each.stat().st_mtime_ns))
        original = place.cache / KERNEL_CACHE / place.soc
        if original.is_symlink() and Fix.LINK not in place.fixes:
            moved = own.with_name("linked")
            own.rename(cache / moved.name)
            own.symlink_to(cache / moved.name)

    def _command(self, place: PlaceOfUse, here: Path, cache: Path, output: Path) -> Command:
        """The command with everything that it writes below ``here``."""
        options = {**place.options, atc.CACHE_DIR: str(cache)}
        options[atc.OUTPUT] = str(output / "model" if options.get(atc.MODEL) else output)
        for name, text in place.files.items():
            options[name] = str(here / f"{name}{Path(options.get(name, '')).suffix}")
            Path(options[name]).write_text(text, encoding="utf-8")
        for name in _WRITTEN & options.keys():
            options[name] = str(here / "work" / name)
        (here / "work" / "debug_dir").mkdir()
        moved = {name: str(here / "work") for name in _REDIRECTED if name in place.environment}
        moved[CACHE_PATH] = str(cache)  # whatever the program prefers
        environment = {**place.environment, **moved, "HOME": str(here / "home")}
        for (key, name), text in place.overlays.items():
            where = environment if key in environment else options
            if key in where:
                where[key] = str(_overlaid(Path(where[key]), here / "overlays" / key, name, text))
        arguments = [f"--{key}={value}" for key, value in options.items()]
        return Command("atc", arguments, environment, here / "work")

    def _run(self, place: PlaceOfUse, here: Path, cache: Path) -> Attempt:
        output = here / "out"
        for each in (output, here / "work", here / "home"):
            each.mkdir()
        own = cache / KERNEL_CACHE / place.soc
        before = Snapshot.take(own)
        faults = {stem: "; ".join(each.problems()) for stem, each in read_entries(own).items()}
        stamp = _text(cache / STAMP)
        running = self._launcher.start(self._command(place, here, cache, output))
        ended = running.wait(time.monotonic() + self._seconds)
        failure = ""
        if ended.returncode != 0:
            last = "; ".join(each.strip() for each in ended.output.strip().splitlines()[-2:])
            failure = f"{in_words(ended.returncode, self._seconds)}: {last[:300]}"
        entries = read_entries(own)
        after = Snapshot.take(own)
        changed = {
            Path(name).stem
            for name in after.files
            if name in before.files and before.files[name].sha256 != after.files[name].sha256
        }
        renewed = {
            stem: faults[stem]
            for stem in entries.keys() & faults.keys()
            if stem in changed or (faults[stem] and entries[stem].is_valid)
        }
        served, keys = self._delivered(output, bool(place.options.get(atc.MODEL)))
        outcome = Attempt(
            served=served if not failure else {},
            failure=failure,
            stamps=(stamp, _text(cache / STAMP)),
            rewritten=renewed,
            gone=frozenset(faults.keys() - entries.keys()),
            stored=frozenset(entries.keys() - faults.keys()),
            kept=cache,
            keys=keys,
            delivered=served,
        )
        for stem in entries.keys() - outcome.rewritten.keys() - outcome.stored:
            for path in entries[stem].paths:
                path.unlink(missing_ok=True)
        shutil.rmtree(output)
        return outcome

    def _delivered(self, output: Path, is_model: bool) -> tuple[dict[str, bool], dict[str, str]]:
        served: dict[str, bool] = {}
        keys: dict[str, str] = {}
        for path in sorted(output.rglob("*.om")):
            for number, kernel in enumerate(take_apart(path, self._marks).kernels):
                stem = kernel.symbol.partition("__kernel")[0]
                match = Entry.stems.fullmatch(stem)
                name = f"{match['type'] if match else 'kernel'}#{number}" if is_model else path.stem
                served[name], keys[name] = bool(kernel.served_from), stem
        return served, keys


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _overlaid(original: Path, target: Path, name: str, text: str) -> Path:
    """A directory like ``original``, of links to what is in it, with another content of one file.
    ``original`` may be such a directory itself."""
    part, _, rest = name.partition("/")
    if original != target:
        target.mkdir(parents=True)
        for each in original.iterdir() if original.is_dir() else ():
            (target / each.name).symlink_to(each)
    if not rest:
        (target / part).unlink(missing_ok=True)
        (target / part).write_text(text, encoding="utf-8")
    else:
        below = target / part
        original = below.resolve() if below.is_symlink() else below
        if below.is_symlink():
            below.unlink()
        _overlaid(original, below, rest, text)
    return target
