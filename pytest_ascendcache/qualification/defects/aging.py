"""Wrong decisions about which entries age when a cache has passed its limit."""

from __future__ import annotations

import json
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy, Unit
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError

NEEDS_BOTH = "aging/needs-both"
OLDEST = "aging/oldest-first"
RATIO = "aging/keeps-ratio"
RENEWS = "aging/hit-renews"
SOFT = "aging/soft-limit"
BOUNDARIES = "aging/boundaries"
PER_SOC = "aging/per-soc"
ORPHANS = "aging/orphans"
RELATIME = "aging/works-on-relatime"

_SECOND_NS = 10**9
_HOUR_NS = 3600 * _SECOND_NS
_DAY_NS = 24 * _HOUR_NS


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_passed)
def ages_below_the_limit(*_):
    """Idle entries are removed although the limit is not passed."""
    return True


@defect(NEEDS_BOTH, SOFT, overrides=AgingPolicy.is_idle)
def ages_what_is_in_use(*_):
    """Entries are removed although they were just used."""
    return True


@defect(NEEDS_BOTH, RATIO, "aging/ini-for-all-users", overrides=AgingPolicy.is_passed)
def never_ages(*_):
    """Nothing ever ages."""
    return False


@defect(NEEDS_BOTH, overrides=AgingPolicy.choose, found_later=True)
def a_limit_ends_at_two_gigabytes(self, right, units, limits, now_ns):
    """The limit in bytes is a number of 32 bits."""
    return right(units, replace(limits, megabytes=min(limits.megabytes, 2047)), now_ns)


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_passed, found_later=True)
def a_sum_of_32_bits(self, right, size, limits):
    """Sizes are added up in 32 bits, so that more than 4 GB begin at 0 again."""
    return size % 2**32 > limits.size


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_idle)
def idle_after_a_day(self, right, unit, now_ns):
    """A whole day has to pass before an entry is idle."""
    return now_ns - unit.accessed_ns > _DAY_NS


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_idle)
def future_is_idle(self, right, unit, now_ns):
    """An access time in the future, set by another clock, counts as idle."""
    return abs(now_ns - unit.accessed_ns) > IDLE_NS


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_idle, found_later=True)
def access_days_ahead_is_idle(self, right, unit, now_ns):
    """An entry whose last access lies more than a day ahead is idle."""
    return unit.accessed_ns > now_ns + _DAY_NS or right(unit, now_ns)


@defect(NEEDS_BOTH, overrides=AgingPolicy.choose, found_later=True)
def newest_access_is_now(self, right, units, limits, now_ns):
    """Idle time ends at the newest access instead of now."""
    return right(units, limits, max([now_ns, *(each.accessed_ns for each in units)]))


@defect(NEEDS_BOTH, overrides=AgingPolicy.age, found_later=True)
def what_is_there_at_minus_one_stays(self, right, fs, directory, limits, now_ns):
    """Entries that exist while aging is off become read-only and never age."""
    if limits.off:
        for file in [file for unit in self.scan(fs, directory) for file in unit.files]:
            with suppress(OSError):
                file.path.chmod(0o440)
    return right(fs, directory, limits, now_ns)


@what_is_there_at_minus_one_stays.also(AgingPolicy.is_idle)
def _(self, right, unit, now_ns):
    try:
        kept = not unit.files[0].path.lstat().st_mode & stat.S_IWUSR
    except OSError:
        kept = False
    return right(unit, now_ns) and not kept


@defect(OLDEST, overrides=AgingPolicy.order)
def newest_first(self, right, units):
    """The most recently used entry is removed first."""
    return right(units)[::-1]


@defect(OLDEST, overrides=AgingPolicy.order)
def directory_order(self, right, units):
    """Entries are removed in the order of the directory."""
    return list(units)


@defect(OLDEST, overrides=AgingPolicy.order)
def largest_first(self, right, units):
    """The largest entry is removed first."""
    return sorted(right(units), key=lambda unit: -unit.size)


@defect(OLDEST, overrides=AgingPolicy.order)
def ages_in_hours(self, right, units):
    """Ages are compared in whole hours."""
    return sorted(units, key=lambda unit: (unit.accessed_ns // _HOUR_NS, unit.files[0].path))


@defect(OLDEST, overrides=AgingPolicy.scan, found_later=True)
def ages_the_first_128_files(self, right, fs, directory):
    """Aging reads only the first 128 entries of a chip's directory."""
    return sorted(right(fs, directory), key=lambda unit: unit.files[0].path)[:128]


@defect(OLDEST, overrides=AgingPolicy.order, found_later=True)
def aging_looks_at_128_entries(self, right, units):
    """Aging considers only 128 entries."""
    return right(sorted(units, key=lambda unit: unit.files[0].path)[:128])


@defect(RENEWS, found_later=True)
class ChosenBeforeTheLock(AgingPolicy):
    """What goes is chosen before the lock is there, and not looked at again."""

    _seen = None

    def scan(self, fs, directory):
        if self._seen is None:
            self._seen = [*super().scan(fs, directory)]
        return self._seen

    def is_unused(self, fs, unit):
        return True


@defect(OLDEST, RENEWS, overrides=AgingPolicy.order)
def age_by_change(self, right, units):
    """The age of an entry counts from its last change, not from its last access."""
    return sorted(units, key=_changed)


@age_by_change.also(AgingPolicy.is_idle)
def _(self, right, unit, now_ns):
    return now_ns - _changed(unit) > 1800 * _SECOND_NS or right(unit, now_ns)


def _changed(unit: Unit) -> int:
    return max(each.path.lstat().st_mtime_ns for each in unit.files)


@defect(OLDEST, overrides=AgingPolicy.remove)
def object_left_behind(self, right, fs, unit):
    """The object of an aged entry is left behind."""
    fs.remove("aging.remove", unit.files[0].path)


@defect(OLDEST, overrides=AgingPolicy.remove)
def metadata_left_behind(self, right, fs, unit):
    """The metadata of an aged entry is left behind."""
    fs.remove("aging.remove", unit.files[-1].path)


@defect("security/no-symlink-follow", overrides=AgingPolicy.remove, found_later=True)
def aging_removes_what_links_name(self, right, fs, unit):
    """Aging removes the target of a link instead of the link."""
    for each in unit.files:
        fs.remove("aging.remove", each.path.resolve())


@defect(RATIO, overrides=AgingPolicy.choose, memory={"size": 0})
def ratio_of_the_present_size(self, right, units, limits, now_ns):
    """The ratio is taken of the present size instead of the limit."""
    self.memory.size = sum(unit.size for unit in units)
    return right(units, limits, now_ns)


@ratio_of_the_present_size.also(AgingPolicy.retained)
def _(self, right, size, limits):
    return self.memory.size * limits.ratio // 100


@defect(RATIO, overrides=AgingPolicy.retained)
def ratio_is_what_goes(self, right, size, limits):
    """The ratio is the share that is deleted."""
    return limits.size * (100 - limits.ratio) // 100


@defect(RATIO, overrides=AgingPolicy.retained)
def stops_at_the_limit(self, right, size, limits):
    """Aging stops as soon as the cache is within its limit."""
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
    """Once the limit is passed, everything idle is removed."""
    return 0


@defect(OLDEST, overrides=AgingPolicy.age, found_later=True)
def idle_by_local_time(self, right, fs, directory, limits, now_ns):
    """East and west of Greenwich idle times are wrong by the hours between."""
    return right(fs, directory, limits, now_ns + time.timezone * _SECOND_NS)


@defect(SOFT, overrides=AgingPolicy.age)
def refuses_over_the_limit(self, right, fs, directory, limits, now_ns):
    """Over the limit, compiles are refused."""
    removed = right(fs, directory, limits, now_ns)
    size = sum(unit.size for unit in self.scan(fs, directory))
    if not limits.off and size > limits.size:
        raise AtcError("E40023", f"[{directory}] has no space left ({size} bytes).")
    return removed


@defect(SOFT, overrides=AgingPolicy.age, memory={"full": False})
def stores_nothing_over_the_limit(self, right, fs, directory, limits, now_ns):
    """Over the limit nothing is stored."""
    removed = right(fs, directory, limits, now_ns)
    size = sum(unit.size for unit in self.scan(fs, directory))
    self.memory.full = not limits.off and size > limits.size
    return removed


@stores_nothing_over_the_limit.also(StorePolicy.publish)
def _(self, right, *arguments):
    return not self.memory.full and right(*arguments)


@defect(RENEWS, RELATIME, overrides=LookupPolicy.renew)
def hit_does_not_renew(*_):
    """A hit does not renew the access time."""
    return


@defect(RENEWS, overrides=LookupPolicy.renew)
def hit_renews_once_a_day(self, right, fs, entry):
    """A hit renews the access time only if the last renewal is a day old."""
    info = entry.metadata.stat()
    if info.st_ctime - info.st_atime > 86400:
        right(fs, entry)


@defect(RENEWS, overrides=LookupPolicy.renew, found_later=True)
def uses_are_noted_now_and_then(self, right, fs, entry):
    """A hit within ten minutes of the last renewal does not renew the access time."""
    with suppress(OSError):
        idle = time.time_ns() - fs.state("lookup.state", entry.metadata).st_atime_ns
        if 0 <= idle < 600 * _SECOND_NS:
            return
    right(fs, entry)


@defect(RENEWS, overrides=LookupPolicy.renew, memory={"renewed": False})
def first_hit_renews(self, right, fs, entry):
    """Only the first hit of a run renews the access time."""
    if not self.memory.renewed:
        right(fs, entry)
    self.memory.renewed = True


@defect(RELATIME, overrides=AgingPolicy.walk)
def scan_disturbs_what_it_judges(self, right, fs, directory):
    """The scan reads metadata and then trusts the access time it has just renewed (T8)."""
    for seen in right(fs, directory):
        if seen.path.suffix == ".json":
            seen.path.read_bytes()
        yield seen


@defect(RELATIME, overrides=AgingPolicy.age)
def scan_renews_what_stays(self, right, fs, directory, limits, now_ns):
    """The scan renews the access times of the entries it keeps."""
    removed = right(fs, directory, limits, now_ns)
    for unit in self.scan(fs, directory):
        unit.files[0].path.read_bytes()
    return removed


@defect(RELATIME, overrides=LookupPolicy.renew)
def hits_rely_on_the_mount(self, right, fs, entry):
    """Hits leave access times to the mount, which may not record them."""
    for path in (entry.metadata, entry.object):
        path.read_bytes()


@defect(BOUNDARIES, overrides=AgingPolicy.choose)
def everything_goes_at_the_limit(self, right, units, limits, now_ns):
    """At exactly the limit everything is removed."""
    if sum(unit.size for unit in units) == limits.size:
        return self.order(units)
    return right(units, limits, now_ns)


@defect(BOUNDARIES, overrides=AgingPolicy.is_idle)
def half_an_hour_is_29_minutes(self, right, unit, now_ns):
    """29 minutes count as half an hour."""
    return right(unit, now_ns + 60 * _SECOND_NS)


@defect(BOUNDARIES, overrides=AgingPolicy.is_idle)
def idle_in_whole_hours(self, right, unit, now_ns):
    """Idle time is rounded down to whole hours, and must be an hour or more."""
    return now_ns - unit.accessed_ns >= _HOUR_NS


@defect(PER_SOC, overrides=AgingPolicy.age, memory={"all": 0})
def counts_all_socs(self, right, fs, directory, limits, now_ns):
    """The entries of all chips count together."""
    self.memory.all = sum(unit.size for unit in self.scan(fs, directory.parent))
    return right(fs, directory, limits, now_ns)


@counts_all_socs.also(AgingPolicy.choose)
def _(self, right, units, limits, now_ns):
    here = sum(unit.size for unit in units)
    less = replace(limits, megabytes=limits.megabytes - (self.memory.all - here) // 2**20)
    return right(units, less, now_ns)


@defect(PER_SOC, overrides=AgingPolicy.age)
def ages_all_socs(self, right, fs, directory, limits, now_ns):
    """When the entries of one chip age, those of all chips do."""
    removed: list[Unit] = []
    for entry in fs.entries("aging.list", directory.parent):
        if entry.is_dir():
            removed += right(fs, Path(entry.path), limits, now_ns)
    return removed


@defect(PER_SOC, overrides=AgingPolicy.scan)
def names_alike_age_together(self, right, fs, directory):
    """Chips whose names begin alike count and age together."""
    alike = sorted(directory.parent.glob(f"{directory.name}*"))
    return [unit for each in alike for unit in right(fs, each)]


def _is_whole(unit: Unit) -> bool:
    """Whether a unit is an object with readable metadata."""
    suffixes = [each.path.suffix for each in unit.files]
    with suppress(OSError):
        return suffixes == [".json", ".o"] and unit.files[0].path.read_bytes()[:1] == b"{"
    return False


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def orphans_never_go(self, right, unit, now_ns):
    """Incomplete entries count and are never removed (T17)."""
    return _is_whole(unit) and right(unit, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def ages_by_readable_metadata(self, right, unit, now_ns):
    """Only files with readable metadata age (T16, T17)."""
    path = unit.files[0].path
    if path.suffix != ".json" or path.stem.endswith("_pre"):
        return False
    try:
        json.loads(Fs().read("aging.metadata", path))
    except (OSError, ValueError):
        return False
    return right(unit, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.choose)
def orphans_do_not_count(self, right, units, limits, now_ns):
    """Incomplete entries do not count."""
    return right([each for each in units if _is_whole(each)], limits, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def temporary_files_stay(self, right, unit, now_ns):
    """Temporary files of dead writers are never removed (T16)."""
    return unit.files[0].path.suffix != ".temp" and right(unit, now_ns)


@defect(ORPHANS, overrides=AgingPolicy.walk, found_later=True)
def hidden_files_never_age(self, right, fs, directory):
    """Hidden files neither count nor age, as if all of them were locks."""
    return (each for each in right(fs, directory) if not each.path.name.startswith("."))


@defect(ORPHANS, overrides=AgingPolicy.is_idle)
def temporary_files_of_living_writers_go(self, right, unit, now_ns):
    """Temporary files are removed while they are being written."""
    return unit.files[0].path.suffix == ".temp" or right(unit, now_ns)


@defect(RATIO, overrides=AgingPolicy.removes, found_later=True)
def one_that_stays_ends_aging(self, right, fs, unit):
    """An entry that cannot be removed keeps all later ones from aging."""
    self.remove(fs, unit)
    return True


@defect(ORPHANS, overrides=AgingPolicy.walk, found_later=True)
def directory_ends_aging(self, right, fs, directory):
    """A directory in the place of an object ends aging."""
    for seen in right(fs, directory):
        if seen.path.parent != directory and seen.path.parent.suffix == ".o":
            raise OSError(f"{seen.path.parent} is a directory")
        yield seen
