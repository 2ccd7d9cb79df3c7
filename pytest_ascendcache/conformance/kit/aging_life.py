"""A life in which the limits change from run to run, and what each of them ages: entries idle for
hours or about half an hour, in use, of a clock that is ahead, small, large, of other chips."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

from pytest_ascendcache.caches import AccessTimes, probe_file_system
from pytest_ascendcache.conformance.kit.findings import Question
from pytest_ascendcache.conformance.kit.life import AgingShelf, Life
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS
from pytest_ascendcache.conformance.kit.own_entries import named
from pytest_ascendcache.conformance.kit.shelf import (
    HOUR,
    HUNDREDS,
    KILOBYTE,
    ORPHANS,
    Shelf,
    accessed,
    environment,
    ini_values,
    rest_entry,
)
from pytest_ascendcache.conformance.kit.texts import PLAIN, Spelling
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE
from pytest_ascendcache.contract import expected_limits, other_soc
from pytest_ascendcache.contract.aging import HALF_AN_HOUR, MEGABYTE
from pytest_ascendcache.contract.facts import Aged, Place, Subject, SubjectKind

FIRST, SECOND, THIRD, FOURTH = named((pair[0] for pair in NEIGHBOURS[:4]), "aging_")

_TEN, _HOURS = "abcdefghij", (3.0, 12.0, 5.0, 10.0, 7.0, 8.0, 9.0, 6.0, 11.0, 4.0)
_SIX = "stuvwx"
_USED = "klmno"
_ALL = (*_TEN, *_SIX, *_USED, *HUNDREDS)
_RECENTLY = 25 * 60.0
"""Seconds since the last use of an entry that is not yet idle."""
_IDLE, _BUSY = "ABCDE", "FGHIJ"
"""Names of orphans, one for each kind: idle ones, and ones in use."""
_HALVES = "object-alone", "metadata-alone", "unreadable-metadata"
"""The kinds of orphans that are damaged entries: removing them heals."""
_RUNS = 2
"""Runs within which idle orphans have to go: the second may see what the first did not."""
_SECTION = "[op_compiler_cache]"
_ZONES = "CST-8", "EST5"
"""Time zones of runs, east and west of Greenwich: idle times are the same in all of them."""


def aging(life: Life) -> None:
    """Limits from every source, incomplete and bad ones, and -1."""
    life.kernels.learn(FIRST, SECOND, THIRD, FOURTH)
    life.run("enable on nothing", (FIRST, SECOND), ENABLE)
    limits = _Limits(life)
    limits.judge_created_file()
    life.between.add_user_directories()
    busy = 400 * KILOBYTE
    limits.run(
        "by the environment", Question.AGING, (8, 50), shelf=limits.mixed(), busy_orphans=busy
    )
    large = limits.large()
    large.on_the_mount()
    limits.run("by default", Question.SOURCES, (None, 80), shelf=large)
    if life.cache.edition.ini:
        # 4101 MB are 5 MB to a toolchain that counts bytes in 32 bits.
        limits.run("by half a file", Question.HALVES, (4101, 20), ini=ini_values(8))
        limits.run(
            "by half a file beside both",
            Question.HALVES,
            (8, 20),
            ini=ini_values(None, 80),
            idle_orphans=800 * KILOBYTE,
        )
        limits.run(
            "by the file",
            Question.SOURCES,
            (-1, 20),
            ini=ini_values(1, 80),
            shelf=limits.in_use(),
            stores=True,
            spelling=Spelling("\r\n", " "),
            busy_orphans=busy,
        )
        limits.judge_idle_orphans()
        large = limits.large()
        off = ini_values(-1, 50)
        limits.run("at -1", Question.OFF, (8, 20), ini=off, shelf=large)
        # Entries that were there at -1 age like any others.
        large = limits.large() if large.gone() else large
        large.rest()
        bad = ("max_op_cache_size", "-2")
        limits.run("by a bad size", Question.BAD, ini=ini_values("-2", 20), shelf=large, bad=bad)
        bad = ("max_op_cache_size", "1.5")
        limits.run("by a bad ratio", Question.BAD, ("1.5", 80), ini=ini_values(8, 0), bad=bad)
    large = limits.large()
    limits.run("at -1 by the environment", Question.OFF, (-1, 20), shelf=large)
    bad = ("cache_size_ratio", "abc")
    shelf = limits.hundreds()
    limits.run("by a ratio that is none", Question.BAD, (8, "abc"), shelf=shelf, bad=bad)


def _surroundings() -> Iterator[dict[str, str]]:
    """Another user and another time zone for each run."""
    for number in count(1):
        user = f"user{number}"
        yield {"USER": user, "LOGNAME": user, "TZ": _ZONES[(number - 1) % len(_ZONES)]}


class _Limits:
    """Sets limits, makes a run under them, and judges which entries are gone."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._findings = life.findings
        self._cache = life.cache
        chip = self._cache.options.soc
        self._chips = (other_soc(chip), f"{chip}C")
        self._surroundings = _surroundings()
        self._ini: Mapping[str, str] = {}
        self._cache.drop_own_limits()
        candidates = self._cache.layout.ini_candidates
        self._created = {path: path.read_bytes() for path in candidates if path.exists()}
        shelf = Shelf(self._cache)
        self._cache.leave_alone(shelf.entry(name).stem for name in (*_ALL, *_IDLE, *_BUSY))
        self._idle: dict[str, tuple[Path, ...]] = {}
        self._over_the_limit = 0

    def judge_created_file(self) -> None:
        """Judge whether the first run created ``op_cache.ini`` where the document says."""
        if not self._cache.edition.ini:
            return
        path = self._cache.root / "op_cache.ini"
        self._findings.asked.add(Question.CREATED)
        if not path.is_file():
            detail = "there is no op_cache.ini in the directory of the option"
            ini = Subject(SubjectKind.FILE, "op_cache.ini")
            self._findings.deviates(Question.CREATED, Place.MISPLACED, detail, subject=ini)
        elif _SECTION not in map(str.strip, path.read_text(errors="replace").splitlines()):
            detail = "op_cache.ini lacks its section"
            self._findings.claims(Question.CREATED, "no section", detail)

    def large(self) -> Shelf:
        """Six entries of 100 MB, idle for hours: more than the default limit."""
        return self._shelf().lay(_SIX, 100 * MEGABYTE, *_HOURS[:6])

    def mixed(self) -> Shelf:
        """Small and large entries, last used some minutes apart."""
        shelf = self._shelf()
        for number, (name, hours) in enumerate(zip(_TEN, _HOURS, strict=True)):
            shelf.lay(name, (500 + 160 * (number % 5)) * KILOBYTE, 3 + hours / 60)
        return shelf

    def hundreds(self) -> Shelf:
        """300 entries of 32 KB, last used half a minute apart."""
        shelf, count = self._shelf(), len(HUNDREDS)
        hours = (3 + 7 * number % count / 120 for number in range(count))
        return shelf.lay(HUNDREDS, 32 * KILOBYTE, *hours)

    def in_use(self) -> Shelf:
        """Entries idle for hours or a year, and larger ones that are not: last used a minute around
        half an hour ago, just now, and by clocks that are ahead."""
        shelf = self._shelf().lay(_TEN[:4], 960 * KILOBYTE, *_HOURS[:3], 24 * 400)
        minute = 60 / HOUR
        ago = HALF_AN_HOUR / HOUR - minute, HALF_AN_HOUR / HOUR + minute, minute, -2.0, -24 * 40
        return shelf.lay(_USED, 4 * MEGABYTE, *ago)

    def _shelf(self) -> Shelf:
        """An empty shelf; removes the entries of earlier ones."""
        shelf = Shelf(self._cache)
        for name in _ALL:
            for path in (shelf.entry(name).object_path, shelf.entry(name).metadata_path):
                path.unlink(missing_ok=True)
        return shelf

    def run(
        self,
        what: str,
        question: Question,
        variables: tuple[object, object] = (None, None),
        *,
        ini: Mapping[str, str] | None = None,
        shelf: Shelf | None = None,
        stores: bool = False,
        spelling: Spelling = PLAIN,
        idle_orphans: int = 0,
        busy_orphans: int = 0,
        bad: tuple[str, str] = ("", ""),
    ) -> None:
        """Make one run under limits from the file and the variables (size and ratio).

        They age ``shelf``, by default ten entries of 960 KB, and decide whether the reuse in this
        run renews the access time. ``stores`` says that the run also stores an entry, ``bad`` which
        limit has which value that a warning has to name. ``idle_orphans`` or ``busy_orphans`` are
        the bytes of each of the orphans next to the shelf, one of each kind.
        """
        life, cache = self._life, self._cache
        self._write(ini or {}, spelling)
        shelf = shelf or self._shelf().lay(_TEN, 960 * KILOBYTE, *_HOURS)
        files = self._lay_orphans(idle_orphans or busy_orphans, is_idle=bool(idle_orphans))
        resting = shelf.resting()
        elsewhere = [Shelf(cache, chip).lay("yz", 9 * MEGABYTE, 9.0, 8.0) for chip in self._chips]
        life.between.age(-60.0, only=(FIRST, SECOND, THIRD))
        entry = life.entries.valid(FIRST)
        before: tuple[int, ...] = ()
        limits = {**environment(*variables), **next(self._surroundings)}
        expected = expected_limits(ini, limits)
        renews = expected.megabytes != -1
        if entry is not None:
            # If nothing is to be renewed the time is ahead: no mount moves such a time by itself.
            rest_entry(cache, entry, _RECENTLY if renews else -HOUR)
            before = accessed(cache, entry)
        started = int(time.time())
        size = sum(path.stat().st_size for each in files.values() for path in each)
        due = AgingShelf(
            shelf,
            expected,
            question,
            size,
            bool(idle_orphans),
            tuple(files[kind] for kind in _HALVES) if busy_orphans else (),
            bad,
        )
        operators = (FIRST, FOURTH) if stores else (FIRST,)
        life.run(f"limits {what}", operators, ENABLE, aging=due, environment=limits)
        self._over_the_limit += life.aged and bool(self._idle)
        if life.succeeded:
            self._judge_scan(shelf, resting)
        if busy_orphans:
            self._judge_busy(files)
            _remove(files)
        if life.succeeded and entry is not None and entry.is_valid:
            self._judge_renewal(renews, before, accessed(cache, entry), started)
        self._judge_chips(elsewhere)

    def _judge_chips(self, elsewhere: Iterable[Shelf]) -> None:
        """Judge whether entries of other chips are left."""
        self._findings.asked.add(Question.CHIPS)
        for other in elsewhere:
            if other.gone():
                detail = f"entries of {other.soc} are gone: {other.gone()}"
                self._findings.deviates(Question.CHIPS, Aged.TOO_MANY, detail)

    def _lay_orphans(self, size: int, is_idle: bool) -> dict[str, tuple[Path, ...]]:
        """Lay an orphan of each kind, if they have a size. Returns the files of each kind."""
        if not size:
            return {}
        shelf, (names, hours) = Shelf(self._cache), (_IDLE, 30.0) if is_idle else (_BUSY, 0.0)
        files = {
            kind: shelf.orphan(name, kind, size, hours)
            for name, kind in zip(names, ORPHANS, strict=True)
        }
        if is_idle:
            self._idle = files
        return files

    def _judge_busy(self, files: Mapping[str, tuple[Path, ...]]) -> None:
        """Judge whether orphans in use are left. Damaged entries may go at any time."""
        if self._life.succeeded:
            there = {kind for kind, each in files.items() if all(map(Path.exists, each))}
            gone = [kind for kind in files if kind not in {*there, *_HALVES}]
            self._judge_orphans(Aged.TOO_MANY, "in use, and gone", gone)

    def judge_idle_orphans(self) -> None:
        """Judge whether the idle orphans went in two runs over the limit, if entries aged in these
        at all."""
        left = [kind for kind, files in self._idle.items() if any(map(Path.exists, files))]
        if self._over_the_limit == _RUNS:
            what = "idle, and there after two runs over the limit"
            self._judge_orphans(Aged.TOO_FEW, what, left)
        _remove(self._idle)

    def _judge_orphans(self, observed: Aged, what: str, kinds: Collection[str]) -> None:
        self._findings.asked.add(Question.ORPHANS)
        if kinds:
            self._findings.deviates(Question.ORPHANS, observed, f"{what}: {', '.join(kinds)}")

    def _judge_scan(self, shelf: Shelf, before: Mapping[Path, int]) -> None:
        """Judge whether the scan left the access times of idle entries alone; not if none are
        kept."""
        if not before:
            return
        self._findings.asked.add(Question.MOUNT)
        after = shelf.resting()
        renewed = [path.name for path, when in after.items() if before[path] != when]
        if renewed:
            some = f"{renewed[0]} and {len(renewed) - 1} more" if renewed[1:] else renewed[0]
            detail = f"the scan renewed what it judges: {some}"
            self._findings.claims(Question.MOUNT, "renewed by the scan", detail)

    def _judge_renewal(
        self, renews: bool, before: tuple[int, ...], after: tuple[int, ...], started: int
    ) -> None:
        strict = probe_file_system(self._cache.sandbox).access_times is AccessTimes.STRICT
        question = Question.RENEWS if renews else Question.OFF
        self._findings.asked.add(question)
        if renews and max(after) < started:
            self._findings.claims(
                question, "not renewed", "the reuse did not renew the access time"
            )
        elif not renews and not strict and after[:2] != before[:2]:  # a lock tells no use
            self._findings.claims(question, "renewed", "the reuse renewed the access time")

    def _write(self, ini: Mapping[str, str], spelling: Spelling) -> None:
        """Append values to the files that the toolchain created; no values restore them."""
        if not self._cache.edition.ini or not (ini or self._ini):
            return
        self._ini = ini
        values = self._cache.edition.ini_values(ini)
        lines = spelling.write(list(values.items())) if values else b""
        default = {self._cache.layout.ini_candidates[-1]: f"{_SECTION}\n".encode()}
        for path, text in (self._created or default).items():
            path.write_bytes(text.rstrip() + b"\n" + lines)


def _remove(orphans: Mapping[str, tuple[Path, ...]]) -> None:
    for files in orphans.values():
        for path in files:
            path.unlink(missing_ok=True)
