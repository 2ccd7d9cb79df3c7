"""Wrong limits, and wrong decisions about what goes when a cache has passed them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.aging import AgingPolicy, Unit
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import (
    RATIO_KEY,
    RATIO_VARIABLE,
    SIZE_KEY,
    SIZE_VARIABLE,
    Found,
    LimitPolicy,
    Limits,
)
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.policies import Policies

INI = "aging/creates-ini"
NEEDS_BOTH = "aging/needs-both"
OLDEST = "aging/oldest-first"
RATIO = "aging/keeps-ratio"
RENEWS = "aging/hit-renews"
SOFT = "aging/soft-limit"
MINUS_ONE = "aging/minus-one"
BOTH_KEYS = "aging/ini-needs-both-keys"
INI_FIRST = "aging/ini-beats-environment"
BAD = "aging/bad-values"
BOUNDARIES = "aging/boundaries"
PER_SOC = "aging/per-soc"
ALL_USERS = "aging/ini-for-all-users"
ORPHANS = "aging/orphans"
RELATIME = "aging/works-on-relatime"


# --- op_cache.ini ---------------------------------------------------------------------------


@defect(INI, overrides=DirectoryPolicy.prepare)
def ini_not_created(self, right, fs, root, soc, *_):
    """op_cache.ini is not created."""
    fs.make_directories("open.mkdir", self.soc(root, soc))


@defect(INI, ALL_USERS, what="op_cache.ini is where CANN has it, in kernel_cache (T5)")
def ini_one_level_down() -> Policies:
    class WrongDirectory(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            super().prepare(fs, self.kernel_cache(root), f"../{soc}", origin)

    class WrongLimits(LimitPolicy):
        def places(self, root: Path, kernel_cache: Path) -> tuple[Path, ...]:
            return (kernel_cache / "op_cache.ini",)

    return having(WrongDirectory(), WrongLimits())


@defect(INI, overrides=Fs.write_temporary)
def ini_without_section(self, right, point, target, data):
    """The created op_cache.ini has no section."""
    return right(point, target, b"" if point == "open.ini" else data)


@defect(INI, overrides=DirectoryPolicy.prepare)
def ini_written_anew(self, right, fs, root, soc, origin):
    """Every run writes op_cache.ini anew."""
    (root / "op_cache.ini").unlink(missing_ok=True)
    right(fs, root, soc, origin)


@defect(ALL_USERS, what="a file without CANN's version keys does not count (T4)")
def ini_needs_version_keys() -> Policies:
    class WrongFs(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            if point == "open.ini":
                data += b"adk_version=7.7\nops_version=7.7\n"
            return super().write_temporary(point, target, data)

    class WrongLimits(LimitPolicy):
        def of_file(self, fs: Fs, path: Path, said: list[str]) -> Limits | None:
            with suppress(OSError):
                text = path.read_text(errors="replace")
                if "\nadk_version=" not in text or "\nops_version=" not in text:
                    return None
            return super().of_file(fs, path, said)

    return having(WrongLimits(), WrongFs())


class _Written(LimitPolicy):
    """Sees the cache's root and the environment beside what the file says."""

    root = Path()
    environ: Mapping[str, str]

    def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
        self.root, self.environ = root, environ
        return super().find(fs, root, kernel_cache, environ)


@defect(ALL_USERS)
class EnvironmentIsWrittenDown(_Written):
    """What the environment sets is written to op_cache.ini for everybody."""

    def of_environment(self, environ, said):
        limits = super().of_environment(environ, said)
        if SIZE_VARIABLE in environ:
            with (self.root / "op_cache.ini").open("a") as file:
                file.write(
                    f"[op_compiler_cache]\n{SIZE_KEY}={limits.megabytes}\n"
                    f"{RATIO_KEY}={limits.ratio}\n"
                )
        return limits


@defect(ALL_USERS)
class IniOfItsFirstUser(_Written):
    """The file counts for the user alone who used it first."""

    def of_values(self, values, path, said):
        owner = self.root / "kernel_cache" / "owner.lock"
        if not owner.exists():
            owner.write_text(self.environ["HOME"])
        mine = owner.read_text() == self.environ["HOME"]
        return super().of_values(values, path, said) if mine else None


# --- when, what, how much -------------------------------------------------------------------


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_passed)
def ages_below_the_limit(*_):
    """Idle entries go although the limit is not passed."""
    return True


@defect(NEEDS_BOTH, SOFT, overrides=AgingPolicy.is_idle)
def ages_what_is_in_use(*_):
    """Entries go although they were just used."""
    return True


@defect(NEEDS_BOTH, RATIO, ALL_USERS, overrides=AgingPolicy.is_passed)
def never_ages(*_):
    """Nothing ever ages."""
    return False


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_idle)
def idle_after_a_day(self, right, unit, now_ns):
    """A whole day has to pass before an entry is idle."""
    return now_ns - unit.accessed_ns > 86400 * 10**9


@defect(OLDEST, overrides=AgingPolicy.order)
def newest_first(self, right, units):
    """The most recently used entry goes first."""
    return right(units)[::-1]


@defect(OLDEST, overrides=AgingPolicy.order)
def directory_order(self, right, units):
    """Entries go in the order of the directory."""
    return list(units)


@defect(OLDEST, overrides=AgingPolicy.order)
def largest_first(self, right, units):
    """The largest entry goes first."""
    return sorted(right(units), key=lambda unit: -unit.size)


@defect(OLDEST, RENEWS)
class AgeByChange(AgingPolicy):
    """Age is that of the last change, not of the last access."""

    def order(self, units):
        return sorted(units, key=self._changed)

    def _changed(self, unit):
        return max(each.path.lstat().st_mtime_ns for each in unit.files)

    def is_idle(self, unit, now_ns):
        return now_ns - self._changed(unit) > 1800 * 10**9 or super().is_idle(unit, now_ns)


@defect(OLDEST, overrides=AgingPolicy.remove)
def object_left_behind(self, right, fs, unit):
    """The object of an aged entry is left behind."""
    fs.remove("aging.remove", unit.files[0].path)


@defect(OLDEST, overrides=AgingPolicy.remove)
def metadata_left_behind(self, right, fs, unit):
    """The metadata of an aged entry is left behind."""
    fs.remove("aging.remove", unit.files[-1].path)


@defect(RATIO)
class RatioOfThePresentSize(AgingPolicy):
    """The ratio is one of the present size, not of the limit."""

    def choose(self, units, limits, now_ns):
        self._size = sum(unit.size for unit in units)
        return super().choose(units, limits, now_ns)

    def retained(self, size, limits):
        return self._size * limits.ratio // 100


@defect(RATIO, overrides=AgingPolicy.retained)
def ratio_is_what_goes(self, right, size, limits):
    """The ratio is the share that is deleted."""
    return limits.size * (100 - limits.ratio) // 100


@defect(RATIO, overrides=AgingPolicy.retained)
def stops_at_the_limit(self, right, size, limits):
    """Aging stops as soon as the limit is kept."""
    return limits.size


@defect(RATIO, overrides=AgingPolicy.choose)
def stops_one_too_late(self, right, units, limits, now_ns):
    """Aging removes one entry too many."""
    chosen = right(units, limits, now_ns)
    rest = [unit for unit in self.order(units) if unit not in chosen and unit.size]
    more = [unit for unit in rest if self.is_idle(unit, now_ns)]
    return chosen + more[:1] if chosen else []


@defect(RATIO, overrides=AgingPolicy.retained)
def everything_idle_goes(*_):
    """Once the limit is passed everything idle goes."""
    return 0


@defect(RENEWS, RELATIME, overrides=LookupPolicy.renew)
def hit_does_not_renew(*_):
    """A hit does not renew the access time."""
    return


@defect(RENEWS, overrides=LookupPolicy.renew)
def hit_renews_once_a_day(self, right, fs, entry):
    """A hit renews the access time only a day after the last one."""
    info = entry.metadata.stat()
    if info.st_ctime - info.st_atime > 86400:
        right(fs, entry)


@defect(SOFT, overrides=AgingPolicy.age)
def refuses_over_the_limit(self, right, fs, directory, limits, now_ns):
    """Over the limit compiles are refused."""
    gone = right(fs, directory, limits, now_ns)
    size = sum(unit.size for unit in self.scan(fs, directory))
    if not limits.off and size > limits.size:
        raise AtcError("E40023", f"[{directory}] has no space left ({size} bytes).")
    return gone


@defect(SOFT, what="over the limit nothing is stored")
def stores_nothing_over_the_limit() -> Policies:
    class WrongAging(AgingPolicy):
        full = False

        def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
            gone = super().age(fs, directory, limits, now_ns)
            size = sum(unit.size for unit in self.scan(fs, directory))
            self.full = not limits.off and size > limits.size
            return gone

    aging = WrongAging()

    class WrongStore(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            return not aging.full and super().publish(fs, entry, data, metadata, keep)

    return having(aging, WrongStore())


# --- -1 -------------------------------------------------------------------------------------


@defect(MINUS_ONE, overrides=LimitPolicy.find)
def minus_one_purges(self, right, fs, root, kernel_cache, environ):
    """-1 is a size like others: every cache is larger, and goes."""
    found = right(fs, root, kernel_cache, environ)
    return replace(found, limits=Limits(0, 1)) if found.limits.off else found


@defect(MINUS_ONE, overrides=LimitPolicy.find)
def minus_one_is_the_default(self, right, fs, root, kernel_cache, environ):
    """-1 means the default of 500 MB, which ages."""
    found = right(fs, root, kernel_cache, environ)
    return replace(found, limits=self.default) if found.limits.off else found


@defect(MINUS_ONE, overrides=AgingPolicy.renews)
def minus_one_renews(*_):
    """At -1 a hit renews the access time all the same."""
    return True


@defect(MINUS_ONE, overrides=LimitPolicy.of_values)
def minus_one_not_in_the_file(self, right, values, path, said):
    """-1 is known in the environment alone."""
    limits = right(values, path, said)
    return None if limits is None or limits.off else limits


# --- where limits come from -----------------------------------------------------------------


@defect(BOTH_KEYS, overrides=LimitPolicy.of_values)
def one_key_is_enough(self, right, values, *_):
    """One valid value is enough; the default stands for the other."""
    size, ratio = self.size(values.get(SIZE_KEY, "")), self.ratio(values.get(RATIO_KEY, ""))
    if size is None and ratio is None:
        return None
    return Limits(
        self.default.megabytes if size is None else size,
        self.default.ratio if ratio is None else ratio,
    )


@defect(BOTH_KEYS)
class HalfAFileIsMixedIn(_Written):
    """Half a file is mixed with the environment, value by value."""

    def of_values(self, values, path, said):
        size, ratio = self.size(values.get(SIZE_KEY, "")), self.ratio(values.get(RATIO_KEY, ""))
        if size is None and ratio is None:
            return None
        other = self.of_environment(self.environ, [])
        return Limits(
            other.megabytes if size is None else size, other.ratio if ratio is None else ratio
        )


@defect(BOTH_KEYS, overrides=LimitPolicy.of_values)
def half_a_file_hides_the_environment(self, right, values, path, said):
    """Half a file hides the environment: the default counts."""
    return right(values, path, said) or self.default


@defect(INI_FIRST, overrides=LimitPolicy.find)
def environment_beats_ini(self, right, fs, root, kernel_cache, environ):
    """The environment is preferred to the file."""
    if SIZE_VARIABLE in environ or RATIO_VARIABLE in environ:
        return Found(self.of_environment(environ, []))
    return right(fs, root, kernel_cache, environ)


@defect(INI_FIRST, overrides=LimitPolicy.of_environment)
def environment_does_not_count(self, *_):
    """The environment does not count."""
    return self.default


@defect(INI_FIRST)
class SmallerLimitCounts(_Written):
    """The smaller of two limits counts, wherever it is set."""

    def of_values(self, values, path, said):
        limits = super().of_values(values, path, said)
        other = self.of_environment(self.environ, [])
        if limits is None or limits.off or other.off:
            return limits
        return min(limits, other, key=lambda each: each.megabytes * each.ratio)


@defect(INI_FIRST)
class DefaultRatioOfTheExample(LimitPolicy):
    """By default 80 % are retained, as in the document's example file."""

    default = Limits(500, 80)


@defect(BAD, overrides=LimitPolicy.of_environment)
def junk_ratio_is_zero(self, right, environ, said):
    """A ratio that is no number is 0 %: everything idle goes (T9)."""
    limits = right(environ, said)
    text = environ.get(RATIO_VARIABLE, "50")
    return limits if re.match(r"\s*[+-]?[0-9]", text) else replace(limits, ratio=0)


@defect(BAD, overrides=LimitPolicy.size)
def junk_size_is_zero(self, right, text):
    """A size that is none counts as 0 MB."""
    size = right(text)
    return 0 if size is None else size


@defect(BAD, overrides=LimitPolicy.number)
def leading_digits_count(self, right, text):
    """The leading digits of a value count, whatever follows."""
    leading = re.match(r"\s*-?[0-9]+", text)
    return int(leading[0]) if leading else None


@defect(BAD, overrides=LimitPolicy.find)
def bad_values_in_silence(self, right, fs, root, kernel_cache, environ):
    """Bad values are passed over in silence."""
    return Found(right(fs, root, kernel_cache, environ).limits)


@defect(BAD, overrides=LimitPolicy.find)
def bad_values_fail(self, right, fs, root, kernel_cache, environ):
    """A bad value fails the compile."""
    found = right(fs, root, kernel_cache, environ)
    if found.warnings:
        raise AtcError("E10001", found.warnings[0])
    return found


@defect(BAD, overrides=LimitPolicy.ratio)
def ratio_of_zero_is_taken(self, right, text):
    """A ratio of 0 % is taken."""
    return 0 if self.number(text) == 0 else right(text)


# --- boundaries, chips, orphans, mounts -----------------------------------------------------


@defect(BOUNDARIES, overrides=AgingPolicy.choose)
def everything_goes_at_the_limit(self, right, units, limits, now_ns):
    """At exactly the limit everything goes."""
    if sum(unit.size for unit in units) == limits.size:
        return self.order(units)
    return right(units, limits, now_ns)


@defect(BOUNDARIES, overrides=AgingPolicy.is_idle)
def half_an_hour_is_29_minutes(self, right, unit, now_ns):
    """29 minutes count as half an hour."""
    return right(unit, now_ns + 60 * 10**9)


@defect(BOUNDARIES, overrides=AgingPolicy.is_idle)
def idle_in_whole_hours(self, right, unit, now_ns):
    """Idle time is counted in whole hours, rounded down, and one has to pass."""
    return now_ns - unit.accessed_ns >= 3600 * 10**9


@defect(PER_SOC)
class CountsAllSocs(AgingPolicy):
    """All chips' entries count together."""

    def choose(self, units, limits, now_ns):
        here = sum(unit.size for unit in units)
        less = replace(limits, megabytes=limits.megabytes - (self._all - here) // 2**20)
        return super().choose(units, less, now_ns)

    def age(self, fs, directory, limits, now_ns):
        self._all = sum(unit.size for unit in self.scan(fs, directory.parent))
        return super().age(fs, directory, limits, now_ns)


@defect(PER_SOC, overrides=AgingPolicy.age)
def ages_all_socs(self, right, fs, directory, limits, now_ns):
    """When one chip's entries age, so do the others'."""
    gone: list[Unit] = []
    for entry in fs.entries("aging.list", directory.parent):
        if entry.is_dir():
            gone += right(fs, Path(entry.path), limits, now_ns)
    return gone


def _is_whole(unit: Unit) -> bool:
    """Whether a unit is a pair whose metadata can be read as such."""
    suffixes = [each.path.suffix for each in unit.files]
    with suppress(OSError):
        return suffixes == [".json", ".o"] and unit.files[0].path.read_bytes()[:1] == b"{"
    return False


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def orphans_never_go(self, right, unit, now_ns):
    """What is no whole entry counts and never goes (T17)."""
    return _is_whole(unit) and right(unit, now_ns)


@defect(ORPHANS, what="aging goes by readable metadata; anything else stays (T16, T17)")
def ages_by_readable_metadata() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            path = unit.files[0].path
            if path.suffix != ".json" or path.stem.endswith("_pre"):
                return False
            try:
                json.loads(fs.read("aging.metadata", path))
            except (OSError, ValueError):
                return False
            return super().is_idle(unit, now_ns)

    fs = Fs()
    return having(Wrong())


@defect(ORPHANS, overrides=AgingPolicy.choose)
def orphans_do_not_count(self, right, units, limits, now_ns):
    """What is no whole entry does not count."""
    return right([each for each in units if _is_whole(each)], limits, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def temporary_files_stay(self, right, unit, now_ns):
    """Temporary files of dead writers stay for ever (T16)."""
    return unit.files[0].path.suffix != ".temp" and right(unit, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def temporary_files_of_living_writers_go(self, right, unit, now_ns):
    """Temporary files go while they are being written."""
    return unit.files[0].path.suffix == ".temp" or right(unit, now_ns)


@defect(RELATIME, overrides=AgingPolicy.walk)
def scan_disturbs_what_it_judges(self, right, fs, directory):
    """The scan reads metadata, and then trusts its access time (T8)."""
    for seen in right(fs, directory):
        if seen.path.suffix == ".json":
            seen.path.read_bytes()
        yield seen


@defect(RELATIME, overrides=AgingPolicy.age)
def scan_renews_what_stays(self, right, fs, directory, limits, now_ns):
    """The scan decides rightly, and renews what it spares."""
    gone = right(fs, directory, limits, now_ns)
    for unit in self.scan(fs, directory):
        unit.files[0].path.read_bytes()
    return gone


@defect(RELATIME, overrides=LookupPolicy.renew)
def hits_rely_on_the_mount(self, right, fs, entry):
    """Hits leave access times to the mount, which may keep none."""
    for path in (entry.metadata, entry.object):
        path.read_bytes()
