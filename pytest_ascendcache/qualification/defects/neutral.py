"""What a cache may do: variants no rule, or not every rule, may blame; and a fault that only an
instrument which leaves no trace can see."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.aging import IDLE_NS, AgingPolicy
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.policies import Policies

HEALS = "robust/heals-damaged-entry"
VERIFY = "security/verify-before-load"
SECOND = 10**9


@defect(keeps=("cache-mode/force-applies-knowledge-base",), what="the knowledge base is in the key")
def knowledge_base_in_the_key() -> Policies:
    class Remembers(InstallationPolicy):
        known: Any = None

        def tuning(self, *arguments: Any) -> Any:
            self.known = super().tuning(*arguments)
            return self.known

    remembers = Remembers()

    class Key(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            known = (remembers.known or {}).get(inputs.operator.type)
            return {**super().fields(inputs), "tuning": known}

    return Policies(installation=remembers, key=Key())


@defect(keeps=("aging/boundaries",), overrides=AgingPolicy.is_idle)
def idle_in_whole_seconds(self, right, unit, now_ns):
    """Idle time is counted in whole seconds."""
    return now_ns // SECOND - unit.accessed_ns // SECOND > IDLE_NS // SECOND


@defect(
    keeps=("security/no-symlink-follow",),
    what="a hit through a link renews the target's access times",
)
def a_hit_through_a_link_renews() -> Policies:
    class Following(Fs):
        def read(self, point: str, path: Path) -> bytes:
            return super().read(point, path.resolve() if point.startswith("lookup.") else path)

    class Lookup(LookupPolicy):
        def renew(self, fs: Fs, entry: EntryFiles) -> None:
            for path in (entry.metadata, entry.object):
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))

    return Policies(fs=Following(), lookup=Lookup())


@defect(
    keeps=("aging/bad-values", "aging/ini-beats-environment"), overrides=LimitPolicy.of_environment
)
def an_empty_limit_is_not_set(self, right, environ: Mapping[str, str], said):
    """An empty limit is one that is not set, and nothing is said of it."""
    names = self.edition.variables
    return right({key: environ[key] for key in environ if environ[key] or key not in names}, said)


@defect(
    HEALS,
    VERIFY,
    what="a digest is looked at only where the size differs",
    harm=Harm.WRONG_RESULT,
)
def digest_only_where_the_size_differs() -> Policies:
    class Store(StorePolicy):
        def metadata_text(self, data: bytes, metadata: dict[str, Any]) -> bytes:
            digest = hashlib.sha256(data).hexdigest()
            fields = {**metadata, "sha256": digest, "size": len(data)}
            return json.dumps(fields, indent=4, sort_keys=True).encode()

    class Lookup(LookupPolicy):
        size: object = None

        def verified(self, fs: Fs, entry: EntryFiles, expected: dict[str, Any]) -> bytes | None:
            try:
                self.size = json.loads(entry.metadata.read_bytes()).get("size")
            except (OSError, ValueError, AttributeError, RecursionError):
                return None
            return super().verified(fs, entry, expected)

        def metadata_matches(self, metadata: dict[str, Any], expected: dict[str, Any]) -> bool:
            fields = {name: value for name, value in metadata.items() if name != "size"}
            return super().metadata_matches(fields, expected)

        def digest_matches(self, data: bytes, digest: object) -> bool:
            return len(data) == self.size or super().digest_matches(data, digest)

    return Policies(store=Store(), lookup=Lookup())
