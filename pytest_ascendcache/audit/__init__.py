"""Audits of existing caches: read once, never written, without a toolchain."""

from pytest_ascendcache.audit.findings import Check as Check
from pytest_ascendcache.audit.findings import Removal as Removal
from pytest_ascendcache.audit.plan import RemovalPlan as RemovalPlan
from pytest_ascendcache.audit.plan import is_plan as is_plan
from pytest_ascendcache.audit.plan import write_plan as write_plan
from pytest_ascendcache.audit.result import Audit as Audit
from pytest_ascendcache.audit.result import answer as answer
from pytest_ascendcache.audit.result import story as story
from pytest_ascendcache.audit.result import undecided as undecided
from pytest_ascendcache.audit.scan import audit as audit
from pytest_ascendcache.audit.walk import holds_a_cache as holds_a_cache
