"""Debug switches that reach too far, or not far enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.debug import DebugConfig, DebugPolicy, DebugRequest
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import AtcOptions, OptionPolicy
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
    return Policies(mode=Mode(), debug=Debug())


@defect(LEVEL, what="levels 3 and 4 keep the cache (as documents of 5.0.4 had it)")
def levels_3_and_4_keep_cache() -> Policies:
    return _keeping_cache_at(3, 4)


@defect(LEVEL, what="level 1 keeps the cache")
def level_1_keeps_cache() -> Policies:
    return _keeping_cache_at(1)


@defect("cache-mode/enable-reuses", what="giving --op_debug_level=0 counts as debugging")
def level_0_given_is_debugging() -> Policies:
    class Wrong(OptionPolicy):
        def parse(self, argv: Sequence[str]) -> AtcOptions:
            options = super().parse(argv)
            return replace(options, debug_level=3) if "--op_debug_level=0" in argv else options

    return Policies(options=Wrong())


@defect(LEVEL, what="force purges although a level is set")
def level_lets_force_purge() -> Policies:
    class Wrong(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            return mode == "force" or super().opens_cache(mode, level, config)

    return Policies(mode=Wrong())


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

    return Policies(mode=Wrong(), key=SharedKey())


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

    return Policies(mode=Wrong(), key=SharedKey())


@defect(CONFIG, what="a debug configuration does not touch the cache mode")
def config_keeps_cache() -> Policies:
    class Wrong(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            return super().opens_cache(mode, level, None)

        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return super().use(mode, replace(debug, active=False))

    return Policies(mode=Wrong())


@defect(CONFIG, what="oom alone counts as no debugging")
def oom_keeps_cache() -> Policies:
    class Wrong(DebugPolicy):
        def parse(self, text: str, path: str) -> DebugConfig:
            config = super().parse(text, path)
            harmless = config.switches == {"oom"} and config.listed is None
            return replace(config, listed=("nobody",)) if harmless else config

    return Policies(debug=Wrong())


@defect(UNLISTED, what="a list takes the whole run out of the cache (T3)")
def list_disables_everything() -> Policies:
    class Wrong(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            return config is None and super().opens_cache(mode, level, config)

    return Policies(mode=Wrong())


def _matching(match: Any) -> Policies:
    class Wrong(DebugPolicy):
        def matches(self, item: str, operator: OperatorSpec) -> bool:
            return bool(match(item, operator))

    return Policies(debug=Wrong())


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


@defect(LISTED, what="only the first item of a list is looked at")
def list_of_one() -> Policies:
    class Wrong(DebugPolicy):
        def covers(self, operator: OperatorSpec, config: DebugConfig) -> bool:
            return super().covers(
                operator, replace(config, listed=config.listed[:1] if config.listed else None)
            )

    return Policies(debug=Wrong())


@defect(LISTED, what="listed operators are compiled, and then stored")
def listed_operators_stored() -> Policies:
    class Wrong(ModePolicy):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            use = super().use(mode, debug)
            return replace(use, store=mode != "disable")

    return Policies(mode=Wrong())


@defect("debug/list-without-options", what="a list alone takes every operator out of the cache")
def list_alone_disables_everything() -> Policies:
    class Wrong(DebugPolicy):
        def parse(self, text: str, path: str) -> DebugConfig:
            config = super().parse(text, path)
            return config if config.switches else replace(config, listed=None)

    return Policies(debug=Wrong())


def _keeping(change: Any) -> Policies:
    class Wrong(OutputPolicy):
        def kept_files(
            self, stem: str, kernel: Kernel, metadata: dict[str, Any], debug: DebugRequest
        ) -> dict[str, bytes]:
            return super().kept_files(stem, kernel, metadata, change(debug))

    return Policies(outputs=Wrong())


@defect(OUTPUTS, what="every level keeps the source")
def every_level_keeps_source() -> Policies:
    return _keeping(lambda debug: replace(debug, keep_source=True))


@defect(OUTPUTS, what="no level keeps locations")
def no_level_keeps_locations() -> Policies:
    return _keeping(lambda debug: replace(debug, keep_locations=False))


@defect(OUTPUTS, what="level 0 keeps kernel_meta")
def level_0_keeps_kernel_meta() -> Policies:
    class Wrong(DebugPolicy):
        def request(
            self, operator: OperatorSpec, level: int, config: DebugConfig | None
        ) -> DebugRequest:
            request = super().request(operator, level, config)
            return request if request.active else DebugRequest(active=True, keep_binary=True)

    return Policies(debug=Wrong())


@defect(BAD_FILE, what="a bad debug file counts as none")
def bad_debug_file_ignored() -> Policies:
    class Wrong(DebugPolicy):
        def read(self, path: str) -> DebugConfig | None:
            try:
                return super().read(path)
            except AtcError:
                return None

    return Policies(debug=Wrong())


@defect(BAD_FILE, what="an empty value silently means debugging (T25)")
def empty_value_disables_cache() -> Policies:
    class Wrong(DebugPolicy):
        def parse(self, text: str, path: str) -> DebugConfig:
            try:
                return super().parse(text, path)
            except AtcError:
                return DebugConfig(frozenset())

    return Policies(debug=Wrong())
