"""Aging that is right for the usual cache: a few entries, hours apart, of one chip, below 4 GB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.aging import (
    INI,
    NEEDS_BOTH,
    OLDEST,
    PER_SOC,
    RENEWS,
)
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy, Unit
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import Found, LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.policies import Policies

_HOUR_NS = 3600 * 10**9


@defect(NEEDS_BOTH, what="the limit in bytes has 32 bits")
def limit_in_32_bits() -> Policies:
    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            found = super().find(fs, root, kernel_cache, environ)
            size = found.limits.megabytes
            return replace(
                found, limits=replace(found.limits, megabytes=size % 4096 if size > 0 else size)
            )

    return Policies(limits=Wrong())


@defect(NEEDS_BOTH, what="what was accessed in the future, by another clock, is idle")
def future_is_idle() -> Policies:
    class Wrong(AgingPolicy):
        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return abs(now_ns - unit.accessed_ns) > IDLE_NS

    return Policies(aging=Wrong())


@defect(OLDEST, what="ages are compared in whole hours")
def ages_in_hours() -> Policies:
    class Wrong(AgingPolicy):
        def order(self, units: Sequence[Unit]) -> list[Unit]:
            return sorted(
                units, key=lambda unit: (unit.accessed_ns // _HOUR_NS, unit.files[0].path)
            )

    return Policies(aging=Wrong())


@defect(RENEWS, what="only the first hit of a run renews the access time")
def first_hit_renews() -> Policies:
    class Wrong(LookupPolicy):
        noted = False

        def renew(self, fs: Fs, entry: EntryFiles) -> None:
            if not self.noted:
                super().renew(fs, entry)
            self.noted = True

    return Policies(lookup=Wrong())


@defect(PER_SOC, what="chips whose names begin alike count and age together")
def names_alike_age_together() -> Policies:
    class Wrong(AgingPolicy):
        def scan(self, fs: Fs, directory: Path) -> list[Unit]:
            alike = sorted(directory.parent.glob(f"{directory.name}*"))
            return [unit for each in alike for unit in super(Wrong, self).scan(fs, each)]

    return Policies(aging=Wrong())


@defect(INI, what="an upgrade writes op_cache.ini anew")
def upgrade_resets_ini() -> Policies:
    class Wrong(PurgePolicy):
        def upgrade(self, fs: Fs, kernel_cache: Path, stamp: str) -> bool:
            before = self.stamp(fs, kernel_cache / "version.info")
            if before not in (None, stamp):
                (kernel_cache.parent / "op_cache.ini").write_text("[op_compiler_cache]\n")
            return super().upgrade(fs, kernel_cache, stamp)

    return Policies(purge=Wrong())
