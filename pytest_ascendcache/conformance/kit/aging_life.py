"""A cache whose limits change from run to run, and what each of them lets go.

Beside a few entries of real operators lie those of a shelf, which nobody asks for: idle for hours
or for about half an hour, in use, of a clock that goes ahead, small, large, and of other chips.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from pytest_ascendcache.caches import AccessTimes, probe_file_system
from pytest_ascendcache.conformance.kit.life import Aspect, Life, litter, named
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS
from pytest_ascendcache.conformance.kit.shelf import (
    HOUR,
    KILOBYTE,
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
_SECTION = "[op_compiler_cache]"


def aging(life: Life) -> None:
    """Limits from every source, halves and bad values of them, and -1."""
    life.learn_kernels(FIRST, SECOND, THIRD, FOURTH)
    life.run("enable on nothing", (FIRST, SECOND), ENABLE)
    limits = _Limits(life)
    limits.are_made()
    litter(life)
    limits.hold("by the environment", Aspect.AGING, given=(8, 50), shelf=limits.mixed())
    limits.hold("by default", Aspect.SOURCES, shelf=limits.large(), renews=True)
    if life.cache.edition.ini:
        size, ratio = ini_values(8), ini_values(None, 80)
        limits.hold("by half a file", Aspect.HALVES, ini=size, given=(12, 20))
        limits.hold("by half a file beside both", Aspect.HALVES, ini=ratio, given=(8, 20))
        both, off, odd = ini_values(1, 80), ini_values(-1, 50), Spelling("\r\n", " ")
        limits.hold(
            "by the file",
            Aspect.SOURCES,
            ini=both,
            given=(500, 20),
            shelf=limits.in_use(),
            new=True,
            spelling=odd,
        )
        limits.hold("at -1", Aspect.OFF, ini=off, given=(8, 20), shelf=limits.large(), renews=False)
        bad, none = ini_values("-2", 20), ini_values(8, 0)
        limits.hold("by a bad size", Aspect.BAD, ini=bad, shelf=limits.large())
        limits.hold("by a bad ratio", Aspect.BAD, ini=none, given=("1.5", 80))
    limits.hold("by a ratio that is none", Aspect.BAD, given=(8, "abc"))


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
        names = (*_TEN, *_SIX, *"klmn")
        self._cache.leave_alone(shelf.entry(name).stem for name in names)

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

    def in_use(self) -> Shelf:
        """Some that are idle, most of the bytes in use: a minute less than half an hour ago, a
        minute more, just now, and by a clock that goes ahead."""
        shelf = self._shelf().lay(_TEN[:4], 960 * KILOBYTE, *_HOURS[:4])
        minute = 60 / HOUR
        ago = HALF_AN_HOUR / HOUR - minute, HALF_AN_HOUR / HOUR + minute, minute, -2.0
        return shelf.lay("klmn", 4 * MEGABYTE, *ago)

    def _shelf(self) -> Shelf:
        shelf = Shelf(self._cache)
        for name in (*_TEN, *_SIX, *"klmn"):
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
    ) -> None:
        """One run under these limits of the file and the environment, by which a shelf ages: ten
        entries of 960 KB, where none is given. ``renews`` says whether the hit of the run does."""
        life, cache = self._life, self._cache
        self._write(ini or {}, spelling)
        shelf = shelf or self._shelf().lay(_TEN, 960 * KILOBYTE, *_HOURS)
        elsewhere = [Shelf(cache, chip).lay("yz", 9 * MEGABYTE, 9.0, 8.0) for chip in self._chips]
        life.age(-60.0, only=(FIRST, SECOND, THIRD))
        entry, before = life.entry(FIRST) if renews is not None else None, (0, 0)
        if entry is not None:
            # To come, where nothing is to be renewed: no mount moves such a time by itself.
            rest_entry(entry, 5 * HOUR if renews else -HOUR)
            before = accessed(entry)
        self._users += 1
        user = f"user{self._users}"
        variables = {**environment(*given), "USER": user, "LOGNAME": user}
        started = int(time.time())
        life.run(
            f"limits {what}",
            (FIRST, FOURTH) if new else (FIRST,),
            ENABLE,
            shelf=(shelf, expected_limits(ini, variables)),
            about=aspect,
            environment=variables,
        )
        if entry is not None and entry.is_valid:
            self._judge_renewal(bool(renews), before, accessed(entry), started)
        life.judged.add(Aspect.CHIPS)
        for chip, there in zip(self._chips, elsewhere, strict=True):
            if there.gone():
                life.say(Aspect.CHIPS, f"entries of {chip} are gone: {there.gone()}")

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
