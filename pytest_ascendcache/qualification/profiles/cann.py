"""CANN, as its published source behaves. Source: facts ``cann-operator-cache``, section 8.

T1 to T9, T11, T16 to T19, T20 (metadata is trusted), T21, T25 (debug file) and T27 break a rule;
the list of known deviations of the same name (``contract/deviations``) names them. T10 (``>=``,
exactly 1800 s), T13 (force removes once, then serves) and T31 (-1: no limit at all) are here too.
The document leaves them open, so they show as readings.

Not expressed, and why:

* T12: a missing version file; no rule looks at it yet.
* T14, T15: lost locks show only sometimes, but a profile must behave the same in every run.
* T20 (``dlopen``): kernels of the reference are never shared objects.
* T22, T23: that sources and knowledge bases are not in the key is the documented limitation, and
  the reference's own behaviour; there is no core count here.
* T24, T26, T30, T32, T34, T35: places of debug files, messages, counters, spellings of SoCs, and
  options; nothing a cache entry shows.
* T28: the stamp is not kept in ``op_cache.ini`` here.
* T29: needs many compiles in one process through another interface than ATC's.
* T33: the document does not say whether a directory that cannot be created fails a compile.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import re
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Wrong, override
from pytest_ascendcache.qualification.defects import (
    access,
    aging,
    debugging,
    entries,
    innocent_caches,
    limits,
    upgrades,
)
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, StorePolicy
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import RATIO_VARIABLE, LimitPolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.mode import ModePolicy


@override(AgingPolicy.remove)
def named_objects_are_aged(_self, right, fs, unit):
    """T19: aging removes the object that the metadata names. The name is joined to the directory
    as a text, so that an absolute name leads nowhere."""
    for each in unit.files:
        entry = EntryFiles(each.path.parent, each.path.stem)
        name = access.object_name(entry)
        if name and (named := Path(f"{entry.directory}/{name}")).is_file():
            fs.remove("aging.named", named)
    right(fs, unit)


@override(ImplementationPolicy.select, memory={"modes": {}})
def knows_modes(self, right, options, environ):
    """T27: the mode that is set for an operator's type is remembered."""
    selected = right(options, environ)
    self.memory.modes = selected.table.by_type
    return selected


@override(KeyPolicy.fields)
def mode_in_key(self, right, inputs):
    """T27: that mode is in the operator's key, even if the operator has no such implementation, or
    only one."""
    fields = right(inputs)
    mode = self.memory.modes.get(inputs.operator.type, "")
    return {**fields, "implementation": f"{fields['implementation']} {mode}"}


@override(ImplementationPolicy.precision_file)
def reads_marked_files(self, right, path):
    """T27: a byte order mark is part of a file's first line, which then names no operator."""
    table = right(path)
    first, _, others = Path(path).read_text("utf-8").partition("\n")
    return self.parse(others, path, "op_precision_mode") if first.startswith("\ufeff") else table


@override(StorePolicy.replace_pair)
def object_first(self, _right, fs, entry, data, metadata):
    """T1: the metadata is written only after the object has its name."""
    fs.write_whole("store.object", entry.object, data)
    fs.write_whole("store.metadata", entry.metadata, self.metadata_text(data, metadata))


@override(DebugPolicy.read)
def list_alone(_self, right, path):
    """T3: a debug list without switches is not read, and nothing is debugged."""
    config = right(path)
    alone = config is not None and not config.switches and config.listed is not None
    return None if alone else config


@override(LimitPolicy.of_environment)
def junk_ratio(_self, right, environ, warnings):
    """T9: numbers are read by ``stoi`` and ``atoi``; a ratio of the environment that is none is
    0 %, and 0 % is accepted."""
    limits = right(environ, warnings)
    leading = re.match(r"\s*[+-]?[0-9]+", environ.get(RATIO_VARIABLE, "50"))
    return limits if leading and int(leading[0]) else replace(limits, ratio=0)


@override(AgingPolicy.is_idle)
def idle_in_1800_s(_self, right, unit, now_ns):
    """T10: exactly 1800 s count as more than half an hour."""
    return right(unit, now_ns + (now_ns - unit.accessed_ns == IDLE_NS))


@override(ModePolicy.use)
def force_serves(_self, right, mode, debug):
    """T13: after its purge, force is enable."""
    return right("enable" if mode == "force" else mode, debug)


policies = Wrong(
    [
        entries.damaged_entries_stay,  # T1, T2
        entries.metadata_is_believed,  # T19, T20, T21
        debugging.list_disables_everything,  # T3
        debugging.empty_value_disables_cache,  # T25
        limits.ini_needs_version_keys,  # T4
        limits.ini_one_level_down,  # T5
        limits.leading_digits_count,  # T9
        aging.scan_disturbs_what_it_judges,  # T8
        aging.ages_by_readable_metadata,  # T16, T17
        upgrades.upgrade_of_one_soc,  # T6
        upgrades.stamp_before_purge,  # T7
        access.unnoted_use_is_a_miss,  # T11
        access.links_are_purged,  # T18
        named_objects_are_aged,
        knows_modes,
        reads_marked_files,
        mode_in_key,
        object_first,
        list_alone,
        junk_ratio,
        innocent_caches.reached_is_passed,  # T10
        idle_in_1800_s,
        force_serves,
    ]
)
"""Makes the reference's policies with all behaviour of CANN that they can express."""
