"""Wrong limits, and wrong decisions about what goes when a cache has passed them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy, Seen, Unit
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


@defect(INI, what="op_cache.ini is not created")
def ini_not_created() -> Policies:
    class Wrong(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            fs.make_directories("open.mkdir", self.soc(root, soc))

    return Policies(directory=Wrong())


@defect(INI, ALL_USERS, what="op_cache.ini is where CANN has it, in kernel_cache (T5)")
def ini_one_level_down() -> Policies:
    class WrongDirectory(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            super().prepare(fs, self.kernel_cache(root), f"../{soc}", origin)

    class WrongLimits(LimitPolicy):
        def places(self, root: Path, kernel_cache: Path) -> tuple[Path, ...]:
            return (kernel_cache / "op_cache.ini",)

    return Policies(directory=WrongDirectory(), limits=WrongLimits())


@defect(INI, what="the created op_cache.ini has no section")
def ini_without_section() -> Policies:
    class Wrong(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            return super().write_temporary(point, target, b"" if point == "open.ini" else data)

    return Policies(fs=Wrong())


@defect(INI, what="every run writes op_cache.ini anew")
def ini_written_anew() -> Policies:
    class Wrong(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            (root / "op_cache.ini").unlink(missing_ok=True)
            super().prepare(fs, root, soc, origin)

    return Policies(directory=Wrong())


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

    return Policies(limits=WrongLimits(), fs=WrongFs())


class _Written(LimitPolicy):
    """Sees the cache's root and the environment beside what the file says."""

    root = Path()
    environ: Mapping[str, str]

    def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
        self.root, self.environ = root, environ
        return super().find(fs, root, kernel_cache, environ)


@defect(ALL_USERS, what="what the environment sets is written to op_cache.ini for everybody")
def environment_is_written_down() -> Policies:
    class Wrong(_Written):
        def of_environment(self, environ: Mapping[str, str], said: list[str]) -> Limits:
            limits = super().of_environment(environ, said)
            if SIZE_VARIABLE in environ:
                with (self.root / "op_cache.ini").open("a") as file:
                    file.write(
                        f"[op_compiler_cache]\n{SIZE_KEY}={limits.megabytes}\n"
                        f"{RATIO_KEY}={limits.ratio}\n"
                    )
            return limits

    return Policies(limits=Wrong())


@defect(ALL_USERS, what="the file counts for the user alone who used it first")
def ini_of_its_first_user() -> Policies:
    class Wrong(_Written):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            owner = self.root / "kernel_cache" / "owner.lock"
            if not owner.exists():
                owner.write_text(self.environ["HOME"])
            mine = owner.read_text() == self.environ["HOME"]
            return super().of_values(values, path, said) if mine else None

    return Policies(limits=Wrong())


# --- when, what, how much -------------------------------------------------------------------


@defect(NEEDS_BOTH, what="idle entries go although the limit is not passed")
def ages_below_the_limit() -> Policies:
    class Wrong(AgingPolicy):
        def is_passed(self, size: int, limits: Limits) -> bool:
            return True

    return Policies(aging=Wrong())


@defect(NEEDS_BOTH, SOFT, what="entries go although they were just used")
def ages_what_is_in_use() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return True

    return Policies(aging=Wrong())


@defect(NEEDS_BOTH, RATIO, ALL_USERS, what="nothing ever ages")
def never_ages() -> Policies:
    class Wrong(AgingPolicy):
        def is_passed(self, size: int, limits: Limits) -> bool:
            return False

    return Policies(aging=Wrong())


@defect(NEEDS_BOTH, what="a whole day has to pass before an entry is idle")
def idle_after_a_day() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return now_ns - unit.accessed_ns > 86400 * 10**9

    return Policies(aging=Wrong())


@defect(OLDEST, what="the most recently used entry goes first")
def newest_first() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return super().order(units)[::-1]

    return Policies(aging=Wrong())


@defect(OLDEST, what="entries go in the order of the directory")
def directory_order() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return list(units)

    return Policies(aging=Wrong())


@defect(OLDEST, what="the largest entry goes first")
def largest_first() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return sorted(super().order(units), key=lambda unit: -unit.size)

    return Policies(aging=Wrong())


@defect(OLDEST, RENEWS, what="age is that of the last change, not of the last access")
def age_by_change() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return sorted(units, key=self._changed)

        def _changed(self, unit: Unit) -> int:
            return max(each.path.lstat().st_mtime_ns for each in unit.files)

        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return now_ns - self._changed(unit) > 1800 * 10**9 or super().is_idle(unit, now_ns)

    return Policies(aging=Wrong())


@defect(OLDEST, what="the object of an aged entry is left behind")
def object_left_behind() -> Policies:
    class Wrong(AgingPolicy):
        def remove(self, fs: Fs, unit: Unit) -> None:
            fs.remove("aging.remove", unit.files[0].path)

    return Policies(aging=Wrong())


@defect(OLDEST, what="the metadata of an aged entry is left behind")
def metadata_left_behind() -> Policies:
    class Wrong(AgingPolicy):
        def remove(self, fs: Fs, unit: Unit) -> None:
            fs.remove("aging.remove", unit.files[-1].path)

    return Policies(aging=Wrong())


@defect(RATIO, what="the ratio is one of the present size, not of the limit")
def ratio_of_the_present_size() -> Policies:
    class Wrong(AgingPolicy):
        def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
            self._size = sum(unit.size for unit in units)
            return super().choose(units, limits, now_ns)

        def retained(self, size: int, limits: Limits) -> int:
            return self._size * limits.ratio // 100

    return Policies(aging=Wrong())


@defect(RATIO, what="the ratio is the share that is deleted")
def ratio_is_what_goes() -> Policies:
    class Wrong(AgingPolicy):
        def retained(self, size: int, limits: Limits) -> int:
            return limits.size * (100 - limits.ratio) // 100

    return Policies(aging=Wrong())


@defect(RATIO, what="aging stops as soon as the limit is kept")
def stops_at_the_limit() -> Policies:
    class Wrong(AgingPolicy):
        def retained(self, size: int, limits: Limits) -> int:
            return limits.size

    return Policies(aging=Wrong())


@defect(RATIO, what="aging removes one entry too many")
def stops_one_too_late() -> Policies:
    class Wrong(AgingPolicy):
        def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
            chosen = super().choose(units, limits, now_ns)
            rest = [unit for unit in self.order(units) if unit not in chosen and unit.size]
            more = [unit for unit in rest if self.is_idle(unit, now_ns)]
            return chosen + more[:1] if chosen else []

    return Policies(aging=Wrong())


@defect(RATIO, what="once the limit is passed everything idle goes")
def everything_idle_goes() -> Policies:
    class Wrong(AgingPolicy):
        def retained(self, size: int, limits: Limits) -> int:
            return 0

    return Policies(aging=Wrong())


@defect(RENEWS, RELATIME, what="a hit does not renew the access time")
def hit_does_not_renew() -> Policies:
    class Wrong(LookupPolicy):
        def renew(self, fs: Fs, entry: EntryFiles) -> None:
            return

    return Policies(lookup=Wrong())


@defect(RENEWS, what="a hit renews the access time only a day after the last one")
def hit_renews_once_a_day() -> Policies:
    class Wrong(LookupPolicy):
        def renew(self, fs: Fs, entry: EntryFiles) -> None:
            info = entry.metadata.stat()
            if info.st_ctime - info.st_atime > 86400:
                super().renew(fs, entry)

    return Policies(lookup=Wrong())


@defect(SOFT, what="over the limit compiles are refused")
def refuses_over_the_limit() -> Policies:
    class Wrong(AgingPolicy):
        def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
            gone = super().age(fs, directory, limits, now_ns)
            size = sum(unit.size for unit in self.scan(fs, directory))
            if not limits.off and size > limits.size:
                raise AtcError("E40023", f"[{directory}] has no space left ({size} bytes).")
            return gone

    return Policies(aging=Wrong())


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

    return Policies(aging=aging, store=WrongStore())


# --- -1 -------------------------------------------------------------------------------------


@defect(MINUS_ONE, what="-1 is a size like others: every cache is larger, and goes")
def minus_one_purges() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            found = super().find(fs, root, kernel_cache, environ)
            return replace(found, limits=Limits(0, 1)) if found.limits.off else found

    return Policies(limits=Wrong())


@defect(MINUS_ONE, what="-1 means the default of 500 MB, which ages")
def minus_one_is_the_default() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            found = super().find(fs, root, kernel_cache, environ)
            return replace(found, limits=self.default) if found.limits.off else found

    return Policies(limits=Wrong())


@defect(MINUS_ONE, what="at -1 a hit renews the access time all the same")
def minus_one_renews() -> Policies:
    class Wrong(AgingPolicy):
        def renews(self, limits: Limits) -> bool:
            return True

    return Policies(aging=Wrong())


@defect(MINUS_ONE, what="-1 is known in the environment alone")
def minus_one_not_in_the_file() -> Policies:
    class Wrong(LimitPolicy):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            limits = super().of_values(values, path, said)
            return None if limits is None or limits.off else limits

    return Policies(limits=Wrong())


# --- where limits come from -----------------------------------------------------------------


@defect(BOTH_KEYS, what="one valid value is enough; the default stands for the other")
def one_key_is_enough() -> Policies:
    class Wrong(LimitPolicy):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            size, ratio = self.size(values.get(SIZE_KEY, "")), self.ratio(values.get(RATIO_KEY, ""))
            if size is None and ratio is None:
                return None
            return Limits(
                self.default.megabytes if size is None else size,
                self.default.ratio if ratio is None else ratio,
            )

    return Policies(limits=Wrong())


@defect(BOTH_KEYS, what="half a file is mixed with the environment, value by value")
def half_a_file_is_mixed_in() -> Policies:
    class Wrong(_Written):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            size, ratio = self.size(values.get(SIZE_KEY, "")), self.ratio(values.get(RATIO_KEY, ""))
            if size is None and ratio is None:
                return None
            other = self.of_environment(self.environ, [])
            return Limits(
                other.megabytes if size is None else size, other.ratio if ratio is None else ratio
            )

    return Policies(limits=Wrong())


@defect(BOTH_KEYS, what="half a file hides the environment: the default counts")
def half_a_file_hides_the_environment() -> Policies:
    class Wrong(LimitPolicy):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            return super().of_values(values, path, said) or self.default

    return Policies(limits=Wrong())


@defect(INI_FIRST, what="the environment is preferred to the file")
def environment_beats_ini() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            if SIZE_VARIABLE in environ or RATIO_VARIABLE in environ:
                return Found(self.of_environment(environ, []))
            return super().find(fs, root, kernel_cache, environ)

    return Policies(limits=Wrong())


@defect(INI_FIRST, what="the environment does not count")
def environment_does_not_count() -> Policies:
    class Wrong(LimitPolicy):
        def of_environment(self, environ: Mapping[str, str], said: list[str]) -> Limits:
            return self.default

    return Policies(limits=Wrong())


@defect(INI_FIRST, what="the smaller of two limits counts, wherever it is set")
def smaller_limit_counts() -> Policies:
    class Wrong(_Written):
        def of_values(
            self, values: Mapping[str, str], path: Path, said: list[str]
        ) -> Limits | None:
            limits = super().of_values(values, path, said)
            other = self.of_environment(self.environ, [])
            if limits is None or limits.off or other.off:
                return limits
            return min(limits, other, key=lambda each: each.megabytes * each.ratio)

    return Policies(limits=Wrong())


@defect(INI_FIRST, what="by default 80 % are retained, as in the document's example file")
def default_ratio_of_the_example() -> Policies:
    class Wrong(LimitPolicy):
        default = Limits(500, 80)

    return Policies(limits=Wrong())


@defect(BAD, what="a ratio that is no number is 0 %: everything idle goes (T9)")
def junk_ratio_is_zero() -> Policies:
    class Wrong(LimitPolicy):
        def of_environment(self, environ: Mapping[str, str], said: list[str]) -> Limits:
            limits = super().of_environment(environ, said)
            text = environ.get(RATIO_VARIABLE, "50")
            return limits if re.match(r"\s*[+-]?[0-9]", text) else replace(limits, ratio=0)

    return Policies(limits=Wrong())


@defect(BAD, what="a size that is none counts as 0 MB")
def junk_size_is_zero() -> Policies:
    class Wrong(LimitPolicy):
        def size(self, text: str) -> int | None:
            size = super().size(text)
            return 0 if size is None else size

    return Policies(limits=Wrong())


@defect(BAD, what="the leading digits of a value count, whatever follows")
def leading_digits_count() -> Policies:
    class Wrong(LimitPolicy):
        def number(self, text: str) -> int | None:
            leading = re.match(r"\s*-?[0-9]+", text)
            return int(leading[0]) if leading else None

    return Policies(limits=Wrong())


@defect(BAD, what="bad values are passed over in silence")
def bad_values_in_silence() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            return Found(super().find(fs, root, kernel_cache, environ).limits)

    return Policies(limits=Wrong())


@defect(BAD, what="a bad value fails the compile")
def bad_values_fail() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            found = super().find(fs, root, kernel_cache, environ)
            if found.warnings:
                raise AtcError("E10001", found.warnings[0])
            return found

    return Policies(limits=Wrong())


@defect(BAD, what="a ratio of 0 % is taken")
def ratio_of_zero_is_taken() -> Policies:
    class Wrong(LimitPolicy):
        def ratio(self, text: str) -> int | None:
            return 0 if self.number(text) == 0 else super().ratio(text)

    return Policies(limits=Wrong())


# --- boundaries, chips, orphans, mounts -----------------------------------------------------


@defect(BOUNDARIES, what="at exactly the limit everything goes")
def everything_goes_at_the_limit() -> Policies:
    class Wrong(AgingPolicy):
        def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
            if sum(unit.size for unit in units) == limits.size:
                return self.order(units)
            return super().choose(units, limits, now_ns)

    return Policies(aging=Wrong())


@defect(BOUNDARIES, what="29 minutes count as half an hour")
def half_an_hour_is_29_minutes() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return super().is_idle(unit, now_ns + 60 * 10**9)

    return Policies(aging=Wrong())


@defect(BOUNDARIES, what="idle time is counted in whole hours, rounded down, and one has to pass")
def idle_in_whole_hours() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return now_ns - unit.accessed_ns >= 3600 * 10**9

    return Policies(aging=Wrong())


@defect(PER_SOC, what="all chips' entries count together")
def counts_all_socs() -> Policies:
    class Wrong(AgingPolicy):
        def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
            here = sum(unit.size for unit in units)
            less = replace(limits, megabytes=limits.megabytes - (self._all - here) // 2**20)
            return super().choose(units, less, now_ns)

        def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
            self._all = sum(unit.size for unit in self.scan(fs, directory.parent))
            return super().age(fs, directory, limits, now_ns)

    return Policies(aging=Wrong())


@defect(PER_SOC, what="when one chip's entries age, so do the others'")
def ages_all_socs() -> Policies:
    class Wrong(AgingPolicy):
        def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
            gone: list[Unit] = []
            for entry in fs.entries("aging.list", directory.parent):
                if entry.is_dir():
                    gone += super().age(fs, Path(entry.path), limits, now_ns)
            return gone

    return Policies(aging=Wrong())


def _is_whole(unit: Unit) -> bool:
    """Whether a unit is a pair whose metadata can be read as such."""
    suffixes = [each.path.suffix for each in unit.files]
    with suppress(OSError):
        return suffixes == [".json", ".o"] and unit.files[0].path.read_bytes()[:1] == b"{"
    return False


@defect(ORPHANS, what="what is no whole entry counts and never goes (T17)")
def orphans_never_go() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return _is_whole(unit) and super().is_idle(unit, now_ns)

    return Policies(aging=Wrong())


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
    return Policies(aging=Wrong())


@defect(ORPHANS, what="what is no whole entry does not count")
def orphans_do_not_count() -> Policies:
    class Wrong(AgingPolicy):
        def choose(self, units: Sequence[Unit], limits: Limits, now_ns: int) -> list[Unit]:
            return super().choose([each for each in units if _is_whole(each)], limits, now_ns)

    return Policies(aging=Wrong())


@defect(ORPHANS, what="temporary files of dead writers stay for ever (T16)")
def temporary_files_stay() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return unit.files[0].path.suffix != ".temp" and super().is_idle(unit, now_ns)

    return Policies(aging=Wrong())


@defect(ORPHANS, what="temporary files go while they are being written")
def temporary_files_of_living_writers_go() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return unit.files[0].path.suffix == ".temp" or super().is_idle(unit, now_ns)

    return Policies(aging=Wrong())


@defect(RELATIME, what="the scan reads metadata, and then trusts its access time (T8)")
def scan_disturbs_what_it_judges() -> Policies:
    class Wrong(AgingPolicy):
        def walk(self, fs: Fs, directory: Path) -> Iterator[Seen]:
            for seen in super().walk(fs, directory):
                if seen.path.suffix == ".json":
                    seen.path.read_bytes()
                yield seen

    return Policies(aging=Wrong())


@defect(RELATIME, what="the scan decides rightly, and renews what it spares")
def scan_renews_what_stays() -> Policies:
    class Wrong(AgingPolicy):
        def age(self, fs: Fs, directory: Path, limits: Limits, now_ns: int) -> list[Unit]:
            gone = super().age(fs, directory, limits, now_ns)
            for unit in self.scan(fs, directory):
                unit.files[0].path.read_bytes()
            return gone

    return Policies(aging=Wrong())


@defect(RELATIME, what="hits leave access times to the mount, which may keep none")
def hits_rely_on_the_mount() -> Policies:
    class Wrong(LookupPolicy):
        def renew(self, fs: Fs, entry: EntryFiles) -> None:
            for path in (entry.metadata, entry.object):
                path.read_bytes()

    return Policies(lookup=Wrong())
