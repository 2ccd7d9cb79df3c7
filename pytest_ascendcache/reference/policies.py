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
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.model.fusion import FusionPolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy
from pytest_ascendcache.reference.static_kernel.client.policies import ClientPolicies
from pytest_ascendcache.reference.static_kernel.policies import StaticKernelPolicies


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
