"""CANN, as its published source behaves. Source: facts ``cann-operator-cache``, section 8.

T1 to T9, T11, T16 to T19, T20 (metadata is trusted), T21, T25 (debug file) and T27 show under a
rule; the list of known deviations of the same name names them
(``contract/deviations``). T10 (``>=``, exactly 1800 s), T13 (force removes once, then serves) and
T31 (-1: no limit at all) are here too, and within what the document leaves open: they show as
readings.

Not expressed, and why:

* T12: a missing version file; no rule looks at it yet.
* T14, T15: lost locks show only now and then; a profile has to behave the same at every run.
* T20 (``dlopen``): kernels of the reference are never shared objects.
* T22, T23: that sources and knowledge bases are not in the key is the documented limitation, and
  the reference's own behaviour; there is no core count here.
* T24, T26, T30, T32, T34, T35: places of debug files, messages, counters, spellings of SoCs, and
  options; nothing a cache entry shows.
* T28: the stamp is not kept in ``op_cache.ini`` here.
* T29: needs many compiles in one process through another interface than ATC's.
* T33: whether an uncreatable directory fails a compile is not said by the document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import compose
from pytest_ascendcache.qualification.defects import (
    access,
    aging,
    debugging,
    entries,
    interruption,
)
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy, Unit
from pytest_ascendcache.reference.cache.entry import EntryFiles, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.cache.limits import RATIO_VARIABLE, LimitPolicy, Limits
from pytest_ascendcache.reference.debug import DebugConfig, DebugPolicy, DebugRequest
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy, ModeTable, SelectedModes
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import AtcOptions
from pytest_ascendcache.reference.policies import Policies


def policies() -> Policies:
    """The reference's policies with everything of CANN in them that can be expressed."""
    return compose(
        entries.damaged_entries_stay(),  # T1, T2
        entries.metadata_is_believed(),  # T19, T20, T21
        debugging.list_disables_everything(),  # T3
        debugging.empty_value_disables_cache(),  # T25
        aging.ini_needs_version_keys(),  # T4
        aging.ini_one_level_down(),  # T5
        aging.scan_disturbs_what_it_judges(),  # T8
        _conversions(),  # T9
        aging.ages_by_readable_metadata(),  # T16, T17
        _boundaries(),  # T10
        _force_serves(),  # T13
        _mode_in_key(),  # T27
        _object_first(),  # T1
        _list_alone(),  # T3
        interruption.upgrade_of_one_soc(),  # T6
        interruption.stamp_before_purge(),  # T7
        access.unnoted_use_is_a_miss(),  # T11
        access.links_are_purged(),  # T18
        _names_are_aged(),  # T19
    )


def _names_are_aged() -> Policies:
    """T19: aging removes the object the metadata names, joined to the directory as a text: an
    absolute name leads nowhere."""

    class Aging(AgingPolicy):
        def remove(self, fs: Fs, unit: Unit) -> None:
            for each in unit.files:
                entry = EntryFiles(each.path.parent, each.path.stem)
                name = access.object_name(entry)
                if name and (named := Path(f"{entry.directory}/{name}")).is_file():
                    fs.remove("aging.named", named)
            super().remove(fs, unit)

    return Policies(aging=Aging())


def _mode_in_key() -> Policies:
    """T27: the mode that is set for an operator's type is in its key, whether or not the operator
    has that implementation, or any choice at all; and a byte order mark is a part of a file's first
    line, which is no operator's then."""

    class Remembers(ImplementationPolicy):
        modes: Mapping[str, str] = {}

        def select(self, options: AtcOptions, environ: Mapping[str, str]) -> SelectedModes:
            selected = super().select(options, environ)
            self.modes = selected.table.by_type
            return selected

        def precision_file(self, path: str) -> ModeTable:
            table = super().precision_file(path)
            first, _, others = Path(path).read_text("utf-8").partition("\n")
            marked = first.startswith("\ufeff")
            return self.parse(others, path, "op_precision_mode") if marked else table

    remembers = Remembers()

    class Key(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            fields = super().fields(inputs)
            mode = remembers.modes.get(inputs.operator.type, "")
            return {**fields, "implementation": f"{fields['implementation']} {mode}"}

    return Policies(implementation=remembers, key=Key())


def _object_first() -> Policies:
    """T1: the metadata is written once the object has its name."""

    class Store(StorePolicy):
        def replace_pair(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any]
        ) -> None:
            new = fs.write_temporary("store.object", entry.object, data)
            fs.replace("store.object.rename", new, entry.object)
            text = self.metadata_text(data, metadata)
            new = fs.write_temporary("store.metadata", entry.metadata, text)
            fs.replace("store.metadata.rename", new, entry.metadata)

    return Policies(store=Store())


def _list_alone() -> Policies:
    """T3: without switches the list is not read at all: nothing is debugged."""

    class Debug(DebugPolicy):
        def read(self, path: str) -> DebugConfig | None:
            config = super().read(path)
            alone = config is not None and not config.switches and config.listed is not None
            return None if alone else config

    return Policies(debug=Debug())


def _conversions() -> Policies:
    """T9: numbers are read by ``stoi`` and ``atoi``, and of the environment 0 % is taken."""

    class Atoi(LimitPolicy):
        def of_environment(self, environ: Mapping[str, str], said: list[str]) -> Limits:
            limits = super().of_environment(environ, said)
            text = environ.get(RATIO_VARIABLE, "50")
            leading = re.match(r"\s*[+-]?[0-9]+", text)
            return limits if leading and int(leading[0]) else replace(limits, ratio=0)

    return compose(Policies(limits=Atoi()), aging.leading_digits_count())


def _boundaries() -> Policies:
    """T10: a limit is passed when it is reached, and 1800 s are over half an hour."""

    class Inclusive(AgingPolicy):
        def is_passed(self, size: int, limits: Limits) -> bool:
            return size >= limits.size

        def is_idle(self, unit: Unit, now_ns: int) -> bool:
            return super().is_idle(unit, now_ns + (now_ns - unit.accessed_ns == IDLE_NS))

    return Policies(aging=Inclusive())


def _force_serves() -> Policies:
    """T13: after its purge, force is enable."""

    class Mode(ModePolicy):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            return super().use("enable" if mode == "force" else mode, debug)

    return Policies(mode=Mode())
