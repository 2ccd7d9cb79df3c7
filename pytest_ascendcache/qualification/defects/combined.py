"""Wrong decisions that only options together bring about.

Each is right for every option by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.cache.limits import (
    RATIO_KEY,
    SIZE_KEY,
    Found,
    LimitPolicy,
)
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugConfig, DebugPolicy, DebugRequest
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy, ModeTable
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.options import AtcOptions
from pytest_ascendcache.reference.policies import Policies

OUTCOME = "combinations/outcome"
NUMBERS = "combinations/numbers"
TRANSPARENT = "cache-mode/transparent"
HEALS = "robust/heals-damaged-entry"


@dataclass
class _Asked:
    """What this process was asked for, as far as some policy gets to see it."""

    precision_file: bool = False
    type_list: bool = False
    debug_list: bool = False


class _Sees(ImplementationPolicy):
    """Notes which options a run has."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def table(self, options: AtcOptions, environ: Mapping[str, str]) -> ModeTable:
        self._asked.precision_file = bool(options.precision_mode)
        self._asked.type_list = bool(options.impl_mode_types)
        return super().table(options, environ)


class _SeesList(DebugPolicy):
    """Notes whether there is a debug list."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def read(self, path: str) -> DebugConfig | None:
        config = super().read(path)
        self._asked.debug_list = config is not None and config.listed is not None
        return config


@defect(OUTCOME, TRANSPARENT, NUMBERS, what="beside a precision file the mode is not in the key")
def mode_not_in_key_beside_a_file() -> Policies:
    asked = _Asked()

    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            fields = super().fields(inputs)
            return {**fields, "implementation": ""} if asked.precision_file else fields

    return having(_Sees(asked), Wrong())


@defect(OUTCOME, overrides=LimitPolicy.find)
def half_a_file_loses_the_ratio(self, right, fs, root, kernel_cache, environ):
    """Where the file has only half of its values, the ratio set elsewhere is lost."""
    found = right(fs, root, kernel_cache, environ)
    for path in self.places(root, kernel_cache):
        text = path.read_text() if path.exists() else ""
        if (f"\n{SIZE_KEY}=" in text) != (f"\n{RATIO_KEY}=" in text):
            return replace(found, limits=replace(found.limits, ratio=self.default.ratio))
    return found


@defect(OUTCOME, what="with a debug list the debug level does not keep others from the cache")
def list_beats_level() -> Policies:
    class WrongMode(ModePolicy):
        def opens_cache(self, mode: str, level: int, config: DebugConfig | None) -> bool:
            has_list = config is not None and config.listed is not None
            return super().opens_cache(mode, 0 if has_list else level, config)

    class WrongDebug(DebugPolicy):
        def request(
            self, operator: OperatorSpec, level: int, config: DebugConfig | None
        ) -> DebugRequest:
            has_list = config is not None and config.listed is not None
            return super().request(operator, 0 if has_list else level, config)

    return having(WrongMode(), WrongDebug())


@defect(OUTCOME, what="force beside a precision file does not purge")
def force_beside_a_file_spares() -> Policies:
    asked = _Asked()

    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            return asked.precision_file or super().force(fs, soc_directory)

    return having(_Sees(asked), Wrong())


@defect(OUTCOME, what="beside a debug list nothing ages")
def nothing_ages_beside_a_list() -> Policies:
    asked = _Asked()

    class Wrong(LimitPolicy):
        def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
            found = super().find(fs, root, kernel_cache, environ)
            return Found(replace(found.limits, megabytes=-1)) if asked.debug_list else found

    return having(_SeesList(asked), Wrong())


@defect(NUMBERS, overrides=ImplementationPolicy.table)
def type_list_exchanged_on_one_chip(self, right, options, environ):
    """On one chip a type list selects the mode it was not given."""
    if options.soc_version.startswith("Ascend310") and options.impl_mode_types:
        other = {
            "high_precision": "high_performance",
            "high_performance": "high_precision",
        }.get(options.impl_mode, options.impl_mode)
        options = replace(options, impl_mode=other)
    return right(options, environ)


@defect(HEALS, what="beside a type list damaged entries are passed over, and stay")
def damage_stays_beside_a_type_list() -> Policies:
    asked = _Asked()

    class Wrong(StorePolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            there = entry.metadata.exists() or entry.object.exists()
            if asked.type_list and there and keep:
                return True
            return super().publish(fs, entry, data, metadata, keep)

    return having(_Sees(asked), Wrong())


@defect(TRANSPARENT, what="beside a precision file what is served is not verified")
def unverified_beside_a_file() -> Policies:
    asked = _Asked()

    class Wrong(LookupPolicy):
        def find(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            if asked.precision_file and entry.object.exists() and entry.metadata.exists():
                return entry.object.read_bytes()
            return super().find(fs, entry, expected)

    return having(_Sees(asked), Wrong())


@defect(OUTCOME, what="the types of a type list, in its order, are in every operator's key")
def type_list_in_key() -> Policies:
    types: list[Sequence[str]] = []

    class Sees(ImplementationPolicy):
        def table(self, options: AtcOptions, environ: Mapping[str, str]) -> ModeTable:
            types.append(options.impl_mode_types if options.debug_config else ())
            return super().table(options, environ)

    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return {**super().fields(inputs), "types": list(types[-1])}

    return having(Sees(), Wrong())
