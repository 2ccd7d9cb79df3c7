"""All policies of static kernel compilation in one object. See ``reference.policies``."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_ascendcache.reference.static_kernel.compilation import StaticKernelPolicy
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy


@dataclass(frozen=True)
class StaticKernelPolicies:
    """One policy for each kind of decision."""

    compilation: StaticKernelPolicy = field(default_factory=StaticKernelPolicy)
    packages: PackagePolicy = field(default_factory=PackagePolicy)
    registry: RegistryPolicy = field(default_factory=RegistryPolicy)
    selection: SelectionPolicy = field(default_factory=SelectionPolicy)
