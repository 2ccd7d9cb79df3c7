"""The reference toolchain's policies: small objects that each make one kind of decision.

A seeded defect replaces one of them by a subclass that decides wrongly. Nothing here knows about
defects.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.edition import Played
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.incremental.execution import ExecutionPolicy
from pytest_ascendcache.reference.incremental.info import InfoPolicy
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.model.fusion import FusionPolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy
from pytest_ascendcache.reference.static_kernel.client.cards import CardsPolicy, TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.config import ConfigPolicy
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.static_kernel.client.packages import (
    ClientPackagePolicy as ClientPackagePolicy,
)
from pytest_ascendcache.reference.static_kernel.client.tree import TreePolicy
from pytest_ascendcache.reference.static_kernel.client.world import WorldPolicy
from pytest_ascendcache.reference.static_kernel.compilation import StaticKernelPolicy
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy


@dataclass(frozen=True)
class IncrementalPolicies:
    """One policy for each kind of decision of incremental build."""

    surroundings: SurroundingsPolicy = field(default_factory=SurroundingsPolicy)
    directory: RankDirectoryPolicy = field(default_factory=RankDirectoryPolicy)
    info: InfoPolicy = field(default_factory=InfoPolicy)
    reuse: ReusePolicy = field(default_factory=ReusePolicy)
    kernel_meta: KernelMetaPolicy = field(default_factory=KernelMetaPolicy)
    rendezvous: RendezvousPolicy = field(default_factory=RendezvousPolicy)
    execution: ExecutionPolicy = field(default_factory=ExecutionPolicy)


@dataclass(frozen=True)
class StaticKernelPolicies:
    """One policy for each kind of decision of static kernel compilation."""

    compilation: StaticKernelPolicy = field(default_factory=StaticKernelPolicy)
    packages: PackagePolicy = field(default_factory=PackagePolicy)
    registry: RegistryPolicy = field(default_factory=RegistryPolicy)
    selection: SelectionPolicy = field(default_factory=SelectionPolicy)


@dataclass(frozen=True)
class ClientPolicies:
    """One policy for each kind of decision of the client of static kernels."""

    config: ConfigPolicy = field(default_factory=ConfigPolicy)
    tree: TreePolicy = field(default_factory=TreePolicy)
    world: WorldPolicy = field(default_factory=WorldPolicy)
    cards: CardsPolicy = field(default_factory=CardsPolicy)
    dump: DumpPolicy = field(default_factory=DumpPolicy)
    turns: TurnPolicy = field(default_factory=TurnPolicy)
    cache: PackageCachePolicy = field(default_factory=PackageCachePolicy)
    package: ClientPackagePolicy = field(default_factory=ClientPackagePolicy)


@dataclass(frozen=True)
class Policies:
    """One policy for each kind of decision."""

    options: OptionPolicy = field(default_factory=OptionPolicy)
    installation: InstallationPolicy = field(default_factory=InstallationPolicy)
    implementation: ImplementationPolicy = field(default_factory=ImplementationPolicy)
    debug: DebugPolicy = field(default_factory=DebugPolicy)
    mode: ModePolicy = field(default_factory=ModePolicy)
    directory: DirectoryPolicy = field(default_factory=DirectoryPolicy)
    key: KeyPolicy = field(default_factory=KeyPolicy)
    lookup: LookupPolicy = field(default_factory=LookupPolicy)
    store: StorePolicy = field(default_factory=StorePolicy)
    purge: PurgePolicy = field(default_factory=PurgePolicy)
    limits: LimitPolicy = field(default_factory=LimitPolicy)
    aging: AgingPolicy = field(default_factory=AgingPolicy)
    outputs: OutputPolicy = field(default_factory=OutputPolicy)
    fusion: FusionPolicy = field(default_factory=FusionPolicy)
    incremental: IncrementalPolicies = field(default_factory=IncrementalPolicies)
    static_kernel: StaticKernelPolicies = field(default_factory=StaticKernelPolicies)
    client: ClientPolicies = field(default_factory=ClientPolicies)
    fs: Fs = field(default_factory=Fs)

    def play(self, edition: Played) -> None:
        """Make the policies that differ between releases decide as one release does."""
        for policy in (self.debug, self.mode, self.directory, self.limits, self.aging):
            policy.edition = edition
