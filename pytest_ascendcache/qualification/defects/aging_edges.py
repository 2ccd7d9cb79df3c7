"""Aging that is right for the usual cache: a few entries, hours apart, of one chip, below 4 GB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.aging import (
    INI,
    NEEDS_BOTH,
    OLDEST,
    PER_SOC,
    RENEWS,
)
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy, Unit
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.policies import Policies

_HOUR_NS = 3600 * 10**9
NO_LINKS = "security/no-symlink-follow"


@defect(NEEDS_BOTH, overrides=LimitPolicy.find)
def limit_in_32_bits(self, right, fs, root, kernel_cache, environ):
    """The limit in bytes has 32 bits."""
    found = right(fs, root, kernel_cache, environ)
    size = found.limits.megabytes
    return replace(found, limits=replace(found.limits, megabytes=size % 4096 if size > 0 else size))


@defect(NEEDS_BOTH, overrides=AgingPolicy.is_idle)
def future_is_idle(self, right, unit, now_ns):
    """What was accessed in the future, by another clock, is idle."""
    return abs(now_ns - unit.accessed_ns) > IDLE_NS


@defect(OLDEST, overrides=AgingPolicy.order)
def ages_in_hours(self, right, units):
    """Ages are compared in whole hours."""
    return sorted(units, key=lambda unit: (unit.accessed_ns // _HOUR_NS, unit.files[0].path))


@defect(RENEWS)
class FirstHitRenews(LookupPolicy):
    """Only the first hit of a run renews the access time."""

    noted = False

    def renew(self, fs, entry):
        if not self.noted:
            super().renew(fs, entry)
        self.noted = True


@defect(PER_SOC, what="chips whose names begin alike count and age together")
def names_alike_age_together() -> Policies:
    class Wrong(AgingPolicy):
        def scan(self, fs: Fs, directory: Path) -> list[Unit]:
            alike = sorted(directory.parent.glob(f"{directory.name}*"))
            return [unit for each in alike for unit in super(Wrong, self).scan(fs, each)]

    return having(Wrong())


@defect(INI, overrides=PurgePolicy.upgrade)
def upgrade_resets_ini(self, right, fs, kernel_cache, stamp):
    """An upgrade writes op_cache.ini anew."""
    before = self.stamp(fs, kernel_cache / "version.info")
    if before not in (None, stamp):
        (kernel_cache.parent / "op_cache.ini").write_text("[op_compiler_cache]\n")
    return right(fs, kernel_cache, stamp)


@defect(OLDEST, overrides=AgingPolicy.scan, found_later=True)
def ages_the_first_128_files(self, right, fs, directory):
    """Of a chip's directory aging looks at the first 128 entries only."""
    return sorted(right(fs, directory), key=lambda unit: unit.files[0].path)[:128]


@defect(NO_LINKS, overrides=AgingPolicy.remove, found_later=True)
def aging_removes_what_links_name(self, right, fs, unit):
    """Aging removes the file that a link in the cache names, and not the link."""
    for each in unit.files:
        fs.remove("aging.remove", each.path.resolve())
