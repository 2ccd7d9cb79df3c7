"""Debug switches that reach too far, or not far enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.debug import DebugConfig, DebugPolicy, DebugRequest
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy
from pytest_ascendcache.reference.policies import Policies

if TYPE_CHECKING:
    from pytest_ascendcache.reference.kernels import Kernel

LEVEL = "debug/level-bypasses"
CONFIG = "debug/config-bypasses"
LISTED = "debug/list-bypasses-listed"
UNLISTED = "debug/list-caches-unlisted"
NOT_CACHED = "debug/results-not-cached"
OUTPUTS = "debug/outputs"
BAD_FILE = "debug/rejects-bad-file"


class _LevelsKeepCache(ModePolicy):
    levels: frozenset[int] = frozenset()

    def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
        return super().opens_cache(mode, 0 if level in self.levels else level, config)


class _LevelsAreNoDebugging(DebugPolicy):
    levels: frozenset[int] = frozenset()

    def request(
        self, operator: OperatorSpec, level: int, config: DebugConfig | None
    ) -> DebugRequest:
        request = super().request(operator, level, config)
        return replace(request, active=False) if level in self.levels else request


def _keeping_cache_at(*levels: int) -> Policies:
    class Mode(_LevelsKeepCache):
        pass

    class Debug(_LevelsAreNoDebugging):
        pass

    Mode.levels = Debug.levels = frozenset(levels)
    return having(Mode(), Debug())


@defect(LEVEL, what="levels 3 and 4 keep the cache (as documents of 5.0.4 had it)")
def levels_3_and_4_keep_cache() -> Policies:
    return _keeping_cache_at(3, 4)


@defect(LEVEL, what="level 1 keeps the cache")
def level_1_keeps_cache() -> Policies:
    return _keeping_cache_at(1)


@defect("cache-mode/enable-reuses", overrides=OptionPolicy.parse)
def level_0_given_is_debugging(self, right, argv):
    """Giving --op_debug_level=0 counts as debugging."""
    options = right(argv)
    return replace(options, debug_level=3) if "--op_debug_level=0" in argv else options


@defect(LEVEL, overrides=ModePolicy.opens_cache)
def level_lets_force_purge(self, right, mode, level, config):
    """Force purges although a level is set."""
    return mode == "force" or right(mode, level, config)


@defect(LEVEL, NOT_CACHED, what="debug kernels are stored, under keys of their own")
def debug_kernels_stored() -> Policies:
    class Wrong(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            return mode != "disable"

        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return CacheUse(lookup=mode == "enable" and not debug.active, store=True)

    class SharedKey(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return super().fields(replace(inputs, debug=DebugRequest()))

    return having(Wrong(), SharedKey())


@defect(NOT_CACHED, what="debugging is served normal kernels")
def normal_kernels_served_to_debugging() -> Policies:
    class Wrong(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            return mode != "disable"

        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            use = super().use(mode, debug)
            return replace(use, lookup=mode == "enable")

    class SharedKey(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return super().fields(replace(inputs, debug=DebugRequest()))

    return having(Wrong(), SharedKey())


@defect(CONFIG)
class ConfigKeepsCache(ModePolicy):
    """A debug configuration does not touch the cache mode."""

    def opens_cache(self, mode, level, config):
        return super().opens_cache(mode, level, None)

    def use(self, mode, debug):
        return super().use(mode, replace(debug, active=False))


@defect(CONFIG, overrides=DebugPolicy.parse)
def oom_keeps_cache(self, right, text, path):
    """Oom alone counts as no debugging."""
    config = right(text, path)
    harmless = config.switches == {"oom"} and config.listed is None
    return replace(config, listed=("nobody",)) if harmless else config


@defect(UNLISTED, overrides=ModePolicy.opens_cache)
def list_disables_everything(self, right, mode, level, config):
    """A list takes the whole run out of the cache (T3)."""
    return config is None and right(mode, level, config)


def _matching(match: Any) -> Policies:
    class Wrong(DebugPolicy):
        def matches(self, item: str, operator: OperatorSpec) -> bool:
            return bool(match(item, operator))

    return having(Wrong())


@defect(UNLISTED, what="a list matches by prefix")
def list_matches_by_prefix() -> Policies:
    return _matching(
        lambda item, operator: (operator.type if "::" in item else operator.name).startswith(
            item.rpartition("::")[2]
        )
    )


@defect(UNLISTED, what="a type without OpType:: matches too")
def list_matches_bare_types() -> Policies:
    return _matching(
        lambda item, operator: item.rpartition("::")[2] in (operator.type, operator.name)
    )


@defect(LISTED, what="only names are looked at")
def list_ignores_types() -> Policies:
    return _matching(lambda item, operator: item == operator.name)


@defect(LISTED, what="only types are looked at")
def list_ignores_names() -> Policies:
    return _matching(lambda item, operator: item == f"OpType::{operator.type}")


@defect(LISTED, overrides=DebugPolicy.covers)
def list_of_one(self, right, operator, config):
    """Only the first item of a list is looked at."""
    return right(operator, replace(config, listed=config.listed[:1] if config.listed else None))


@defect(LISTED, overrides=ModePolicy.use)
def listed_operators_stored(self, right, mode, debug):
    """Listed operators are compiled, and then stored."""
    use = right(mode, debug)
    return replace(use, store=mode != "disable")


@defect("debug/list-without-options", overrides=DebugPolicy.parse)
def list_alone_disables_everything(self, right, text, path):
    """A list alone takes every operator out of the cache."""
    config = right(text, path)
    return config if config.switches else replace(config, listed=None)


def _keeping(change: Any) -> Policies:
    class Wrong(OutputPolicy):
        def kept_files(
            self, stem: str, kernel: Kernel, metadata: dict[str, Any], debug: DebugRequest
        ) -> dict[str, bytes]:
            return super().kept_files(stem, kernel, metadata, change(debug))

    return having(Wrong())


@defect(OUTPUTS, what="every level keeps the source")
def every_level_keeps_source() -> Policies:
    return _keeping(lambda debug: replace(debug, keep_source=True))


@defect(OUTPUTS, what="no level keeps locations")
def no_level_keeps_locations() -> Policies:
    return _keeping(lambda debug: replace(debug, keep_locations=False))


@defect(OUTPUTS, overrides=DebugPolicy.request)
def level_0_keeps_kernel_meta(self, right, operator, level, config):
    """Level 0 keeps kernel_meta."""
    request = right(operator, level, config)
    return request if request.active else DebugRequest(active=True, keep_binary=True)


@defect(BAD_FILE, overrides=DebugPolicy.read)
def bad_debug_file_ignored(self, right, path):
    """A bad debug file counts as none."""
    try:
        return right(path)
    except AtcError:
        return None


@defect(BAD_FILE, overrides=DebugPolicy.parse)
def empty_value_disables_cache(self, right, text, path):
    """An empty value silently means debugging (T25)."""
    try:
        return right(text, path)
    except AtcError:
        return DebugConfig(frozenset())


@defect(UNLISTED, found_later=True)
class ForceBesideAListKeepsTheRest(ModePolicy):
    """Beside a debug list force replaces what it compiles and removes nothing else."""

    debugs = False

    def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
        self.debugs = config is not None
        return super().opens_cache(mode, level, config)

    def purges(self, mode: str) -> bool:
        return super().purges(mode) and not self.debugs
