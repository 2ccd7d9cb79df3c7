"""A cache whose limits change from run to run, and what each of them lets go.

Beside a few entries of real operators lie those of a shelf, which nobody asks for: idle for hours
or for about half an hour, in use, of a clock that goes ahead, small, large, and of other chips.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches import AccessTimes, probe_file_system
from pytest_ascendcache.conformance.kit.life import Aspect, Life, Shelved, litter, named
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS
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

FIRST, SECOND, THIRD, FOURTH = named((pair[0] for pair in NEIGHBOURS[:4]), "aging_")

_TEN, _HOURS = "abcdefghij", (3.0, 12.0, 5.0, 10.0, 7.0, 8.0, 9.0, 6.0, 11.0, 4.0)
_SIX = "stuvwx"
_USED = "klmno"
_ALL = (*_TEN, *_SIX, *_USED, *HUNDREDS)
_RECENTLY = 25 * 60.0
"""Seconds since an entry was used that does not age."""
_IDLE, _BUSY = "ABCDE", "FGHIJ"
"""Orphans, one of each kind: those that nobody writes, and those in use."""
_RUNS = 2
"""Runs within which what is idle and no entry goes: what one may remove, and what the next sees."""
_SECTION = "[op_compiler_cache]"


def aging(life: Life) -> None:
    """Limits from every source, halves and bad values of them, and -1."""
    life.learn_kernels(FIRST, SECOND, THIRD, FOURTH)
    life.run("enable on nothing", (FIRST, SECOND), ENABLE)
    limits = _Limits(life)
    limits.are_made()
    litter(life)
    in_use = _Orphans(0.0, 400 * KILOBYTE)
    limits.hold(
        "by the environment", Aspect.AGING, given=(8, 50), shelf=limits.mixed(), beside=in_use
    )
    share = (None, 80)
    large = limits.large()
    large.on_the_mount()
    limits.hold("by default", Aspect.SOURCES, given=share, shelf=large, renews=True)
    if life.cache.edition.ini:
        size, ratio = ini_values(8), ini_values(None, 80)
        # 4101 MB are 5 MB to who counts bytes in 32 bits.
        limits.hold("by half a file", Aspect.HALVES, ini=size, given=(4101, 20))
        idle = _Orphans(30.0, 800 * KILOBYTE)
        limits.hold(
            "by half a file beside both", Aspect.HALVES, ini=ratio, given=(8, 20), beside=idle
        )
        both, off, odd = ini_values(1, 80), ini_values(-1, 50), Spelling("\r\n", " ")
        limits.hold(
            "by the file",
            Aspect.SOURCES,
            ini=both,
            given=(500, 20),
            shelf=limits.in_use(),
            new=True,
            spelling=odd,
            beside=in_use,
        )
        limits.orphans_are_gone()
        large = limits.large()
        limits.hold("at -1", Aspect.OFF, ini=off, given=(8, 20), shelf=large, renews=False)
        # What was there at -1 ages like any other.
        large = limits.large() if large.gone() else large
        large.rest()
        bad, none = ini_values("-2", 20), ini_values(8, 0)
        limits.hold(
            "by a bad size", Aspect.BAD, ini=bad, shelf=large, told=("max_op_cache_size", "-2")
        )
        limits.hold(
            "by a bad ratio",
            Aspect.BAD,
            ini=none,
            given=("1.5", 80),
            told=("max_op_cache_size", "1.5"),
        )
    limits.hold(
        "by a ratio that is none",
        Aspect.BAD,
        given=(8, "abc"),
        shelf=limits.hundreds(),
        told=("cache_size_ratio", "abc"),
    )


@dataclass(frozen=True)
class _Orphans:
    """One of each kind beside a shelf: hours since they were used, and bytes of each."""

    hours: float
    size: int


class _Limits:
    """Sets limits, has a run, and compares who goes."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._cache = life.cache
        chip = self._cache.options.soc
        self._chips = (other_soc(chip), f"{chip}C")
        self._users = 0
        self._values: Mapping[str, str] = {}
        self._made = {
            path: path.read_bytes() for path in self._cache.layout.ini_candidates if path.exists()
        }
        shelf = Shelf(self._cache)
        self._cache.leave_alone(shelf.entry(name).stem for name in (*_ALL, *_IDLE, *_BUSY))
        self._idle: dict[str, tuple[Path, ...]] = {}
        self._over_the_limit = 0

    def are_made(self) -> None:
        """Whether the first run made the file, where the document says."""
        if not self._cache.edition.ini:
            return
        life, path = self._life, self._cache.root / "op_cache.ini"
        life.judged.add(Aspect.CREATED)
        if not path.is_file():
            life.say(Aspect.CREATED, "there is no op_cache.ini in the directory of the option")
        elif _SECTION not in map(str.strip, path.read_text(errors="replace").splitlines()):
            life.say(Aspect.CREATED, "op_cache.ini lacks its section")

    def large(self) -> Shelf:
        """Six entries of 100 MB, idle for hours: above the default limit."""
        return self._shelf().lay(_SIX, 100 * MEGABYTE, *_HOURS[:6])

    def mixed(self) -> Shelf:
        """Small and large entries, used some minutes apart."""
        shelf = self._shelf()
        for number, (name, hours) in enumerate(zip(_TEN, _HOURS, strict=True)):
            shelf.lay(name, (500 + 160 * (number % 5)) * KILOBYTE, 3 + hours / 60)
        return shelf

    def hundreds(self) -> Shelf:
        """300 entries of 32 KB, used half a minute apart."""
        shelf, count = self._shelf(), len(HUNDREDS)
        hours = (3 + 7 * number % count / 120 for number in range(count))
        return shelf.lay(HUNDREDS, 32 * KILOBYTE, *hours)

    def in_use(self) -> Shelf:
        """Some that are idle, for hours or a year, most of the bytes in use: a minute less than
        half an hour ago, a minute more, just now, and by clocks that go ahead."""
        shelf = self._shelf().lay(_TEN[:4], 960 * KILOBYTE, *_HOURS[:3], 24 * 400)
        minute = 60 / HOUR
        ago = HALF_AN_HOUR / HOUR - minute, HALF_AN_HOUR / HOUR + minute, minute, -2.0, -24 * 40
        return shelf.lay(_USED, 4 * MEGABYTE, *ago)

    def _shelf(self) -> Shelf:
        shelf = Shelf(self._cache)
        for name in _ALL:
            for path in (shelf.entry(name).object_path, shelf.entry(name).metadata_path):
                path.unlink(missing_ok=True)
        return shelf

    def hold(
        self,
        what: str,
        aspect: Aspect,
        *,
        ini: Mapping[str, str] | None = None,
        given: tuple[object, object] = (None, None),
        shelf: Shelf | None = None,
        renews: bool | None = None,
        new: bool = False,
        spelling: Spelling = PLAIN,
        beside: _Orphans | None = None,
        told: tuple[str, str] = ("", ""),
    ) -> None:
        """One run under these limits of the file and the environment, by which a shelf ages: ten
        entries of 960 KB, where none is given. ``renews`` says whether the hit of the run does,
        ``told`` which limit has which value that is to be warned of."""
        life, cache = self._life, self._cache
        self._write(ini or {}, spelling)
        shelf = shelf or self._shelf().lay(_TEN, 960 * KILOBYTE, *_HOURS)
        orphans = {} if beside is None else self._leave(beside)
        resting = shelf.resting()
        elsewhere = [Shelf(cache, chip).lay("yz", 9 * MEGABYTE, 9.0, 8.0) for chip in self._chips]
        life.age(-60.0, only=(FIRST, SECOND, THIRD))
        entry, before = life.entry(FIRST) if renews is not None else None, (0, 0)
        if entry is not None:
            # To come, where nothing is to be renewed: no mount moves such a time by itself.
            rest_entry(entry, _RECENTLY if renews else -HOUR)
            before = accessed(entry)
        self._users += 1
        user = f"user{self._users}"
        variables = {**environment(*given), "USER": user, "LOGNAME": user}
        started = int(time.time())
        life.run(
            f"limits {what}",
            (FIRST, FOURTH) if new else (FIRST,),
            ENABLE,
            shelf=Shelved(
                shelf,
                expected_limits(ini, variables),
                aspect,
                orphans=sum(path.stat().st_size for files in orphans.values() for path in files),
                orphans_may_go=bool(beside and beside.hours),
                bad=told,
            ),
            environment=variables,
        )
        self._over_the_limit += life.aged and bool(self._idle)
        if life.succeeded:
            self._judge_looking(shelf, resting)
        if beside is not None and not beside.hours:
            if life.succeeded:
                self._orphans_stay(orphans)
            _remove(orphans)
        if entry is not None and entry.is_valid:
            self._judge_renewal(bool(renews), before, accessed(entry), started)
        life.judged.add(Aspect.CHIPS)
        for chip, there in zip(self._chips, elsewhere, strict=True):
            if there.gone():
                life.say(Aspect.CHIPS, f"entries of {chip} are gone: {there.gone()}")

    def _leave(self, beside: _Orphans) -> dict[str, tuple[Path, ...]]:
        """Lay an orphan of each kind beside a shelf: the files of each."""
        shelf, names = Shelf(self._cache), _IDLE if beside.hours else _BUSY
        found = {
            kind: shelf.orphan(name, kind, beside.size, beside.hours)
            for name, kind in zip(names, ORPHANS, strict=True)
        }
        if beside.hours:
            self._idle = found
        return found

    def _orphans_stay(self, orphans: Mapping[str, tuple[Path, ...]]) -> None:
        """Those in use are there."""
        gone = [kind for kind, files in orphans.items() if not all(map(Path.exists, files))]
        self._say_of_orphans("in use, and gone", gone)

    def orphans_are_gone(self) -> None:
        """Those that two runs found idle, each in a cache that stayed over its limit; nothing is
        said where entries did not age either."""
        left = [kind for kind, files in self._idle.items() if any(map(Path.exists, files))]
        if self._over_the_limit == _RUNS:
            self._say_of_orphans("idle, and there after two runs over the limit", left)
        _remove(self._idle)

    def _say_of_orphans(self, what: str, kinds: Collection[str]) -> None:
        self._life.judged.add(Aspect.ORPHANS)
        if kinds:
            self._life.say(Aspect.ORPHANS, f"{what}: {', '.join(kinds)}")

    def _judge_looking(self, shelf: Shelf, before: Mapping[Path, int]) -> None:
        """What is idle and stays was not used, and looks so, where the mount is to note uses."""
        if not before:
            return
        self._life.judged.add(Aspect.MOUNT)
        after = shelf.resting()
        renewed = [path.name for path, when in after.items() if before[path] != when]
        if renewed:
            some = f"{renewed[0]} and {len(renewed) - 1} more" if renewed[1:] else renewed[0]
            self._life.say(Aspect.MOUNT, f"the scan renewed what it judges: {some}")

    def _judge_renewal(
        self, renews: bool, before: tuple[int, int], after: tuple[int, int], started: int
    ) -> None:
        strict = probe_file_system(self._cache.sandbox).access_times is AccessTimes.STRICT
        aspect = Aspect.RENEWS if renews else Aspect.OFF
        self._life.judged.add(aspect)
        if renews and max(after) < started:
            self._life.say(aspect, "the reuse did not renew the access time")
        elif not renews and not strict and after != before:
            self._life.say(aspect, "the reuse renewed the access time")

    def _write(self, ini: Mapping[str, str], spelling: Spelling) -> None:
        """Put values below those lines that the toolchain wrote; none is as it wrote them."""
        if not self._cache.edition.ini or not (ini or self._values):
            return
        self._values = ini
        named = self._cache.edition.ini_values(ini)
        lines = spelling.write(list(named.items())) if named else b""
        made = self._made or {self._cache.layout.ini_candidates[-1]: f"{_SECTION}\n".encode()}
        for path, text in made.items():
            path.write_bytes(text.rstrip() + b"\n" + lines)


def _remove(orphans: Mapping[str, tuple[Path, ...]]) -> None:
    for files in orphans.values():
        for path in files:
            path.unlink(missing_ok=True)
