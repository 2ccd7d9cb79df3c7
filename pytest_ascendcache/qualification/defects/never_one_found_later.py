"""What shows where something is there twice, missing twice, or in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.surroundings import Gang
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import Package
from pytest_ascendcache.reference.static_kernel.index import (
    INDEX_NAME,
    entries_by_key,
    of_entries,
    parse,
    render,
)
from pytest_ascendcache.reference.static_kernel.leases import Holder
from pytest_ascendcache.reference.static_kernel.policies import StaticKernelPolicies
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

UNION = "static-kernel/install-idempotent"
MODES = "security/private-modes"
MISSING = "ranks/partial-deletion"


def _registry(registry: RegistryPolicy) -> Policies:
    return Policies(static_kernel=StaticKernelPolicies(registry=registry))


@defect(UNION, what="packages are loaded in the order of their names", found_later=True)
def packages_by_name() -> Policies:
    class Wrong(RegistryPolicy):
        def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_order(fs, ai_core, sorted(names))

        def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_indexes(fs, ai_core, sorted(names))

    return _registry(Wrong())


@defect(UNION, what="another package of the same name is installed already", found_later=True)
def same_name_is_installed() -> Policies:
    class Wrong(RegistryPolicy):
        def is_installed(
            self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]
        ) -> bool:
            return package.manifest.name in names

    return _registry(Wrong())


@defect(MODES, what="an installed uninstall.sh is writable by everyone", found_later=True)
def uninstall_script_for_everyone() -> Policies:
    class Wrong(RegistryPolicy):
        def stage(self, fs: Fs, ai_core: Path, package: Package, holders: Iterable[Holder]) -> Path:
            staged = super().stage(fs, ai_core, package, holders)
            (staged / "uninstall.sh").chmod(0o777)
            return staged

    return _registry(Wrong())


@defect(MISSING, what="of several missing ranks one is named", found_later=True)
def one_missing_rank_is_named() -> Policies:
    class Wrong(RendezvousPolicy):
        def too_late(self, gang: Gang, missing: Iterable[int]) -> AtcError:
            return super().too_late(gang, [min(missing)])

    return Policies(incremental=IncrementalPolicies(rendezvous=Wrong()))


@defect(UNION, overrides=RegistryPolicy.uninstall, found_later=True)
def removal_takes_shared_keys(self, right, fs, opp, name, *given):
    """Removing a package takes keys out of the index that another package has too."""
    ai_core = self.directory(opp)
    gone = self.parts(fs, ai_core / name)
    done = right(fs, opp, name, *given)
    for soc, index in gone.items():
        path = ai_core / "config" / soc / INDEX_NAME
        if path.is_file():
            now = parse(path.read_bytes())
            taken = entries_by_key(index)
            left = {key: one for key, one in entries_by_key(now).items() if key not in taken}
            path.write_bytes(render(of_entries(now, left)))
    return done
