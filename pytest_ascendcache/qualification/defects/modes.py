"""Wrong decisions about cache modes and option values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.entries import NeverCurrent
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugConfig, DebugRequest
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import CACHE_MODES, OptionPolicy
from pytest_ascendcache.reference.policies import Policies


@defect("cache-mode/default-is-disable")
class DefaultIsEnable(OptionPolicy):
    """The default mode is enable."""

    default_cache_mode = "enable"


@defect("cache-mode/rejects-unknown-mode", overrides=OptionPolicy.cache_mode)
def unknown_mode_is_disable(self, right, value):
    """An unknown mode counts as disable."""
    return value if value in CACHE_MODES else "disable"


@defect("cache-mode/rejects-unknown-mode", overrides=OptionPolicy.cache_mode)
def mode_in_any_case(self, right, value):
    """Modes are accepted in any case."""
    return right(value.lower())


@defect("cache-mode/rejects-unknown-mode", overrides=OptionPolicy.cache_mode, harm=Harm.MISLEADING)
def unknown_mode_without_a_hint(self, right, value):
    """The error does not say which values there are."""
    if value not in CACHE_MODES:
        raise SystemExit(255)
    return value


class _OpensAlways(ModePolicy):
    """Opens the cache under disable too."""

    def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
        return mode == "disable" or super().opens_cache(mode, level, config)


@defect("cache-mode/disable-is-inert")
class DisableStores(_OpensAlways):
    """Disable stores."""

    def use(self, mode, debug):
        return CacheUse(lookup=False, store=not debug.active, replace=True)


@defect("cache-mode/disable-is-inert")
class DisableServes(_OpensAlways):
    """Disable serves what the cache has."""

    def use(self, mode, debug):
        if mode == "disable":
            return CacheUse(lookup=not debug.active, store=False)
        return super().use(mode, debug)


@defect("cache-mode/disable-is-inert")
class DisableCreatesDirectory(_OpensAlways):
    """Disable creates the directory."""

    def use(self, mode, debug):
        use = super().use(mode, debug)
        return CacheUse(False, False) if mode == "disable" else use


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

    return having(WrongMode(), WrongLookup())


@defect(
    "cache-mode/force-purges-soc",
    "cache-mode/force-applies-knowledge-base",
    overrides=ModePolicy.purges,
)
def force_purges_nothing(*_):
    """Force replaces its own entries and leaves all others."""
    return False


@defect("cache-mode/force-purges-soc")
class ForceIsEnable(ModePolicy):
    """Force purges and then serves what is left (enable)."""

    def purges(self, mode):
        return False

    def use(self, mode, debug):
        return super().use("enable" if mode == "force" else mode, debug)


@defect("cache-mode/force-purges-soc", overrides=PurgePolicy.empty)
def force_leaves_objects(self, right, fs, directory):
    """Force removes metadata and leaves objects."""
    for entry in fs.entries("purge.list", directory):
        if entry.name.endswith(".json"):
            self.remove(fs, entry)


@defect("cache-mode/force-purges-soc", overrides=PurgePolicy.empty)
def force_skips_orphans(self, right, fs, directory):
    """Force walks metadata, so orphan objects stay (T17)."""
    entries = fs.entries("purge.list", directory)
    stems = {Path(each.name).stem for each in entries if each.name.endswith(".json")}
    for entry in entries:
        if Path(entry.name).stem in stems:
            self.remove(fs, entry)


@defect("cache-mode/force-spares-other-soc", overrides=PurgePolicy.force)
def force_purges_every_soc(self, right, fs, soc_directory):
    """Force purges every SoC."""
    for entry in fs.entries("purge.list", soc_directory.parent):
        if entry.is_dir(follow_symlinks=False):
            right(fs, Path(entry.path))
    return True


@defect("cache-mode/force-then-enable", overrides=ModePolicy.use)
def force_stores_nothing(self, right, mode, debug):
    """Force stores nothing."""
    return CacheUse(False, False) if mode == "force" else right(mode, debug)


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

    return having(Wrong(), WrongLookup(), NeverCurrent())


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

    return having(Wrong())
