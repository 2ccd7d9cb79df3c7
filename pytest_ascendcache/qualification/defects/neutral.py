"""Variants that the documents allow, so that some rules must not notice them."""

from __future__ import annotations

import os
import time

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy

SECOND = 10**9


@defect(
    keeps=("cache-mode/force-applies-knowledge-base",),
    overrides=InstallationPolicy.tuning,
    memory={"known": {}},
)
def knowledge_base_in_the_key(self, right, *arguments):
    """The knowledge base is in the key."""
    self.memory.known = right(*arguments)
    return self.memory.known


@knowledge_base_in_the_key.also(KeyPolicy.fields)
def _(self, right, inputs):
    return {**right(inputs), "tuning": self.memory.known.get(inputs.operator.type)}


@defect(keeps=("aging/boundaries",), overrides=AgingPolicy.is_idle)
def idle_in_whole_seconds(self, right, unit, now_ns):
    """Idle time is counted in whole seconds."""
    return now_ns // SECOND - unit.accessed_ns // SECOND > IDLE_NS // SECOND


@defect(keeps=("security/no-symlink-follow",), overrides=Fs.read)
def a_hit_through_a_link_renews(self, right, point, path):
    """A hit through a link renews the access times of the link's target."""
    return right(point, path.resolve() if point.startswith("lookup.") else path)


@a_hit_through_a_link_renews.also(LookupPolicy.renew)
def _(self, right, fs, entry):
    for path in (entry.metadata, entry.object):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@defect(
    keeps=("aging/bad-values", "aging/ini-beats-environment"), overrides=LimitPolicy.of_environment
)
def an_empty_limit_is_not_set(self, right, environ, warnings):
    """An empty limit counts as not set, without a warning."""
    names = self.edition.variables
    given = {key: value for key, value in environ.items() if value or key not in names}
    return right(given, warnings)
