"""The installer with policies, for injected faults and seeded defects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel import installer


def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies | None = None) -> int:
    """Like :func:`installer.run`. ``argv`` is a package, then its command line."""
    policies = policies or Policies()
    return installer.run(argv, environ, policies.static_kernel.registry, policies.fs)
