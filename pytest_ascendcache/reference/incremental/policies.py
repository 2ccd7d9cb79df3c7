"""All policies of incremental build in one object. See ``reference.policies``."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_ascendcache.reference.incremental.execution import ExecutionPolicy
from pytest_ascendcache.reference.incremental.info import InfoPolicy
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy


@dataclass(frozen=True)
class IncrementalPolicies:
    """One policy for each kind of decision."""

    surroundings: SurroundingsPolicy = field(default_factory=SurroundingsPolicy)
    directory: RankDirectoryPolicy = field(default_factory=RankDirectoryPolicy)
    info: InfoPolicy = field(default_factory=InfoPolicy)
    reuse: ReusePolicy = field(default_factory=ReusePolicy)
    kernel_meta: KernelMetaPolicy = field(default_factory=KernelMetaPolicy)
    rendezvous: RendezvousPolicy = field(default_factory=RendezvousPolicy)
    execution: ExecutionPolicy = field(default_factory=ExecutionPolicy)
