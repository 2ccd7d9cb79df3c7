"""Audit of caches that exist, without any toolchain: strictly read-only."""

from pytest_ascendcache.audit.findings import Check, Finding, Found, Removal
from pytest_ascendcache.audit.plan import RemovalPlan, is_plan, write_plan
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.scan import audit
from pytest_ascendcache.audit.verdict import story, undecided
from pytest_ascendcache.audit.walk import holds_a_cache

__all__ = [
    "Audit",
    "Check",
    "Finding",
    "Found",
    "Removal",
    "RemovalPlan",
    "audit",
    "holds_a_cache",
    "is_plan",
    "story",
    "undecided",
    "write_plan",
]
