"""What stands for a family: long lists, odd numbers, other clocks, many packages, long waits, and
one thing that stays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.incremental.info import InfoInputs, InfoPolicy
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy
from pytest_ascendcache.reference.incremental.surroundings import Gang
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.policies import StaticKernelPolicies
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

_LIST = 8
_DAY_NS = 86_400 * 10**9


def _beginning(value: Any) -> Any:
    return value[:_LIST] if isinstance(value, (tuple, list)) else value


@defect("cache-mode/key-separates", overrides=KeyPolicy.attributes, found_later=True)
def key_of_eight_items(self, right, operator):
    """The key takes the first eight items of an attribute that is a list."""
    return [[name, kind, _beginning(value)] for name, kind, value in right(operator)]


@defect("cache-mode/key-separates", overrides=KeyPolicy.fields, found_later=True)
def key_of_one_constant(self, right, inputs):
    """Of several constant inputs the key takes the value of the first."""
    fields = right(inputs)
    for each in [each for each in fields["inputs"] if each["is_const"]][1:]:
        each["const_value"] = None
    return fields


@defect("cache-mode/key-separates", overrides=KeyPolicy.fields, found_later=True)
def key_without_absent_inputs(self, right, inputs):
    """Inputs that are not connected have no place in the key."""
    fields = right(inputs)
    told = zip(fields["inputs"], inputs.operator.inputs, strict=True)
    return {**fields, "inputs": [each for each, tensor in told if not tensor.is_absent]}


@defect(
    "incremental/compiles-changed-only",
    what=".info takes the first eight items of an attribute that is a list",
    found_later=True,
)
def info_of_eight_items() -> Policies:
    class Wrong(InfoPolicy):
        def attributes(self, operator: OperatorSpec) -> list[Any]:
            return [
                {**each, "value": _beginning(each["value"])}
                for each in super().attributes(operator)
            ]

    return Policies(incremental=IncrementalPolicies(info=Wrong()))


@defect(
    "incremental/compiles-changed-only", what="a run keeps ten kernels at most", found_later=True
)
def ten_kernels_of_a_run() -> Policies:
    class Wrong(KernelMetaPolicy):
        kept = 0

        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, inputs: InfoInputs, info: InfoPolicy
        ) -> bool:
            self.kept += 1
            return self.kept > 10 or super().publish(fs, entry, data, inputs, info)

    return Policies(incremental=IncrementalPolicies(kernel_meta=Wrong()))


@defect("impl-mode/type-list", overrides=ImplementationPolicy.listed, found_later=True)
def four_listed_types(self, right, types, mode):
    """Of a list of operator types the first four count."""
    return right(types[:4], mode)


@defect("aging/ini-needs-both-keys", overrides=LimitPolicy.number, found_later=True)
def limits_in_octal(self, right, text):
    """A limit that begins with 0 is octal."""
    octal = re.fullmatch(r"0[0-7]+", text.strip(" \t\r"))
    return int(octal[0], 8) if octal else right(text)


@defect("aging/needs-both", overrides=AgingPolicy.is_idle, found_later=True)
def access_days_ahead_is_idle(self, right, unit, now_ns):
    """An entry whose last access lies more than a day ahead is idle."""
    return unit.accessed_ns > now_ns + _DAY_NS or right(unit, now_ns)


@defect("aging/needs-both", overrides=AgingPolicy.choose, found_later=True)
def newest_access_is_now(self, right, units, limits, now_ns):
    """Idle is what was not accessed for half an hour before the newest access."""
    return right(units, limits, max([now_ns, *(each.accessed_ns for each in units)]))


@defect("aging/orphans", overrides=AgingPolicy.removes, found_later=True)
def one_that_stays_ends_aging(self, right, fs, unit):
    """An entry that cannot be removed ends aging for all that come after it."""
    self.remove(fs, unit)
    return True


@defect("aging/orphans", overrides=AgingPolicy.walk, found_later=True)
def directory_ends_aging(self, right, fs, directory):
    """A directory in the place of an object ends aging."""
    for seen in right(fs, directory):
        if seen.path.parent != directory and seen.path.parent.suffix == ".o":
            raise OSError(f"{seen.path.parent} is a directory")
        yield seen


@defect("robust/upgrade-stamp", overrides=PurgePolicy.upgrade, found_later=True)
def versions_that_begin_alike(self, right, fs, kernel_cache, stamp):
    """A toolchain whose version begins with that of the cache counts as the same."""
    before = (self.stamp(fs, kernel_cache / "version.info") or "").strip()
    return bool(before and stamp.startswith(before)) or right(fs, kernel_cache, stamp)


@defect(
    "static-kernel/install-idempotent",
    what="four packages and more are loaded in the order of their names",
    found_later=True,
)
def four_packages_by_name() -> Policies:
    class Wrong(RegistryPolicy):
        def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_order(fs, ai_core, self.ordered(names))

        def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_indexes(fs, ai_core, self.ordered(names))

        def ordered(self, names: Sequence[str]) -> Sequence[str]:
            return sorted(names) if len(names) >= 4 else names

    return Policies(static_kernel=StaticKernelPolicies(registry=Wrong()))


@defect(
    "shared/late-names",
    what="a node that looked for the list of packages too early does not know their order",
    found_later=True,
)
def early_list_stays_missing() -> Policies:
    class Wrong(RegistryPolicy):
        def content(self, fs: Fs, path: Path) -> bytes | None:
            try:
                return fs.read("install.index.read", path)
            except (FileNotFoundError, NotADirectoryError):
                return None

        def names(self, fs: Fs, ai_core: Path) -> list[str]:
            listed = self.order(fs, ai_core)  # before it is seen what is there
            there = [each for each in self.directories(fs, ai_core) if each[0] != "."]
            known = [each for each in listed if each in there]
            return known + [
                each for each in sorted(there) if each not in known and self.is_ours(ai_core / each)
            ]

    return Policies(static_kernel=StaticKernelPolicies(registry=Wrong()))


@defect("ranks/partial-deletion", what="ranks wait for ten minutes at most", found_later=True)
def ten_minutes_at_most() -> Policies:
    class Wrong(RendezvousPolicy):
        def patience(self, gang: Gang) -> float:
            return min(gang.timeout, 600) * gang.second

    return Policies(incremental=IncrementalPolicies(rendezvous=Wrong()))
