"""Wrong decisions about cache modes and option values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.entries import NeverCurrent
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugConfig, DebugRequest
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import CACHE_MODES, OptionPolicy
from pytest_ascendcache.reference.policies import Policies


@defect("cache-mode/default-is-disable", what="the default mode is enable")
def default_is_enable() -> Policies:
    class Wrong(OptionPolicy):
        default_cache_mode = "enable"

    return Policies(options=Wrong())


@defect("cache-mode/rejects-unknown-mode", what="an unknown mode counts as disable")
def unknown_mode_is_disable() -> Policies:
    class Wrong(OptionPolicy):
        def cache_mode(self, value: str) -> str:
            return value if value in CACHE_MODES else "disable"

    return Policies(options=Wrong())


@defect("cache-mode/rejects-unknown-mode", what="modes are accepted in any case")
def mode_in_any_case() -> Policies:
    class Wrong(OptionPolicy):
        def cache_mode(self, value: str) -> str:
            return super().cache_mode(value.lower())

    return Policies(options=Wrong())


@defect("cache-mode/rejects-unknown-mode", what="the error does not say which values there are")
def unknown_mode_without_a_hint() -> Policies:
    class Wrong(OptionPolicy):
        def cache_mode(self, value: str) -> str:
            if value not in CACHE_MODES:
                raise SystemExit(255)
            return value

    return Policies(options=Wrong())


class _OpensAlways(ModePolicy):
    """Opens the cache under disable too."""

    def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
        return mode == "disable" or super().opens_cache(mode, level, config)


@defect("cache-mode/disable-is-inert", what="disable stores")
def disable_stores() -> Policies:
    class Wrong(_OpensAlways):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return CacheUse(lookup=False, store=not debug.active, replace=True)

    return Policies(mode=Wrong())


@defect("cache-mode/disable-is-inert", what="disable serves what the cache has")
def disable_serves() -> Policies:
    class Wrong(_OpensAlways):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            if mode == "disable":
                return CacheUse(lookup=not debug.active, store=False)
            return super().use(mode, debug)

    return Policies(mode=Wrong())


@defect("cache-mode/disable-is-inert", what="disable creates the directory")
def disable_creates_directory() -> Policies:
    class Wrong(_OpensAlways):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            use = super().use(mode, debug)
            return CacheUse(False, False) if mode == "disable" else use

    return Policies(mode=Wrong())


@defect("cache-mode/disable-is-inert", what="disable reads entries, and ignores them")
def disable_reads() -> Policies:
    @dataclass
    class Reading:
        only: bool = False

    state = Reading()

    class WrongMode(_OpensAlways):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            state.only = mode == "disable"
            return CacheUse(True, False) if state.only else super().use(mode, debug)

    class WrongLookup(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            if state.only:
                with suppress(FileNotFoundError):
                    # As anybody reads: the reference's own reads leave access times alone.
                    entry.metadata.read_bytes()
                return None
            return super().find(fs, entry, expected)

    return Policies(mode=WrongMode(), lookup=WrongLookup())


@defect(
    "cache-mode/force-purges-soc",
    "cache-mode/force-applies-knowledge-base",
    what="force replaces its own entries and leaves all others",
)
def force_purges_nothing() -> Policies:
    class Wrong(ModePolicy):
        def purges(self, mode: str) -> bool:
            return False

    return Policies(mode=Wrong())


@defect("cache-mode/force-purges-soc", what="force purges and then serves what is left (enable)")
def force_is_enable() -> Policies:
    class Wrong(ModePolicy):
        def purges(self, mode: str) -> bool:
            return False

        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return super().use("enable" if mode == "force" else mode, debug)

    return Policies(mode=Wrong())


@defect("cache-mode/force-purges-soc", what="force removes metadata and leaves objects")
def force_leaves_objects() -> Policies:
    class Wrong(PurgePolicy):
        def empty(self, fs: Fs, directory: Path) -> None:
            for entry in fs.entries("purge.list", directory):
                if entry.name.endswith(".json"):
                    self.remove(fs, entry)

    return Policies(purge=Wrong())


@defect("cache-mode/force-purges-soc", what="force walks metadata, so orphan objects stay (T17)")
def force_skips_orphans() -> Policies:
    class Wrong(PurgePolicy):
        def empty(self, fs: Fs, directory: Path) -> None:
            entries = fs.entries("purge.list", directory)
            stems = {Path(each.name).stem for each in entries if each.name.endswith(".json")}
            for entry in entries:
                if Path(entry.name).stem in stems:
                    self.remove(fs, entry)

    return Policies(purge=Wrong())


@defect("cache-mode/force-spares-other-soc", what="force purges every SoC")
def force_purges_every_soc() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            for entry in fs.entries("purge.list", soc_directory.parent):
                if entry.is_dir(follow_symlinks=False):
                    super().force(fs, Path(entry.path))
            return True

    return Policies(purge=Wrong())


@defect("cache-mode/force-then-enable", what="force stores nothing")
def force_stores_nothing() -> Policies:
    class Wrong(ModePolicy):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return CacheUse(False, False) if mode == "force" else super().use(mode, debug)

    return Policies(mode=Wrong())


@defect("cache-mode/force-then-enable", what="after force, enable refreshes at every compile")
def force_sticks() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            done = super().force(fs, soc_directory)
            (soc_directory / "forced.lock").touch()
            return done

    class WrongLookup(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            forced = (entry.directory / "forced.lock").exists()
            return None if forced else super().find(fs, entry, expected)

    return Policies(purge=Wrong(), lookup=WrongLookup(), store=NeverCurrent())


@defect(
    "cache-mode/force-spares-other-soc",
    what="force purges every SoC whose name begins like the one that is asked for",
)
def force_purges_names_alike() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            alike = soc_directory.parent.glob(f"{soc_directory.name}*")
            purged = [super(Wrong, self).force(fs, each) for each in alike if each.is_dir()]
            return all(purged)

    return Policies(purge=Wrong())
