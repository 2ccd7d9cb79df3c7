"""Audits of existing caches: read once, never written, without a toolchain."""

from pytest_ascendcache.audit.findings import Check, Removal
from pytest_ascendcache.audit.plan import RemovalPlan, is_plan, write_plan
from pytest_ascendcache.audit.result import Audit, answer, story, undecided
from pytest_ascendcache.audit.scan import audit
from pytest_ascendcache.audit.walk import holds_a_cache

__all__ = [
    "Audit",
    "Check",
    "Removal",
    "RemovalPlan",
    "answer",
    "audit",
    "holds_a_cache",
    "is_plan",
    "story",
    "undecided",
    "write_plan",
]
