"""All policies of the client in one object. See ``reference.policies``."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_ascendcache.reference.static_kernel.client.cards import CardsPolicy, TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.config import ConfigPolicy
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.static_kernel.client.packages import PackagePolicy
from pytest_ascendcache.reference.static_kernel.client.tree import TreePolicy
from pytest_ascendcache.reference.static_kernel.client.world import WorldPolicy


@dataclass(frozen=True)
class ClientPolicies:
    """One policy for each kind of decision."""

    config: ConfigPolicy = field(default_factory=ConfigPolicy)
    tree: TreePolicy = field(default_factory=TreePolicy)
    world: WorldPolicy = field(default_factory=WorldPolicy)
    cards: CardsPolicy = field(default_factory=CardsPolicy)
    dump: DumpPolicy = field(default_factory=DumpPolicy)
    turns: TurnPolicy = field(default_factory=TurnPolicy)
    cache: PackageCachePolicy = field(default_factory=PackageCachePolicy)
    package: PackagePolicy = field(default_factory=PackagePolicy)
