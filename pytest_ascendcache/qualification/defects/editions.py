"""What is right in one release of CANN and wrong in another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.edition import PRESENT, RELEASES, Played
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.policies import Policies

LEVEL = "debug/level-bypasses"
UNLISTED = "debug/list-caches-unlisted"
RATIO = "aging/keeps-ratio"
SOURCES = "aging/ini-beats-environment"
OLD, NEW = RELEASES["7.0"], PRESENT


class _Fixed:
    """An edition of which some part is always another's, whichever release is played."""

    changes: Mapping[str, Any] = {}

    def __get__(self, policy: Any, _: type) -> Any:
        return self if policy is None else replace(policy.__dict__["played"], **self.changes)

    def __set__(self, policy: Any, edition: Played) -> None:
        policy.__dict__["played"] = edition


def _playing(*kinds: type, **changes: Any) -> Policies:
    """Policies of these kinds that take a part of the edition from another release."""
    fixed = type("Fixed", (_Fixed,), {"changes": changes})
    return having(
        *(type(f"Other{kind.__name__}", (kind,), {"edition": fixed()})() for kind in kinds)
    )


@defect(
    LEVEL,
    what="levels 3 and 4 turn the cache off, as documents of 6.0 have it",
    editions=("5.0",),
)
def levels_of_6() -> Policies:
    return _playing(ModePolicy, DebugPolicy, levels=RELEASES["6.0"].levels)


@defect(
    LEVEL,
    what="levels 3 and 4 keep the cache, as the document of 5.0 had it",
    editions=("6.0", "7.0", "8.0.RC2", "8.0", "8.1", "8.5", "9.0"),
)
def levels_of_5() -> Policies:
    return _playing(ModePolicy, DebugPolicy, levels=RELEASES["5.0"].levels)


@defect(
    RATIO,
    SOURCES,
    what="the variables are those of 6.0, which 5.0 has no word of",
    editions=("5.0",),
)
def variables_of_6() -> Policies:
    return _playing(LimitPolicy, variables=NEW.variables)


@defect(
    RATIO,
    SOURCES,
    what="the variables are still those of 5.0",
    editions=("6.0", "7.0", "8.0.RC3", "9.0"),
)
def variables_of_5() -> Policies:
    return _playing(LimitPolicy, variables=RELEASES["5.0"].variables)


@defect(RATIO, what="a share with a percent sign is none", editions=("5.0",))
def percent_sign_is_refused() -> Policies:
    return _playing(LimitPolicy, share_unit="")


@defect(
    UNLISTED,
    what="operators outside of a debug list use the cache, as from 8.0.RC3 on",
    editions=("6.0", "7.0"),
)
def list_excepts_already() -> Policies:
    return _playing(ModePolicy, list_excepts=True)


@defect(
    UNLISTED,
    what="a debug list excepts no operator, as it was up to 7.0",
    editions=("8.0.RC3", "8.0", "9.0"),
)
def list_excepts_none() -> Policies:
    return _playing(ModePolicy, list_excepts=False)


@defect(
    SOURCES,
    "aging/ini-for-all-users",
    what="op_cache.ini is read under the keys of 8.0",
    editions=("7.0",),
)
def keys_of_8() -> Policies:
    return _playing(LimitPolicy, ini=NEW.ini)


@defect(
    SOURCES,
    "aging/ini-for-all-users",
    what="op_cache.ini is still read under the keys of 7.0",
    editions=("8.0.RC2", "8.0.RC3", "8.5", "9.0"),
)
def keys_of_7() -> Policies:
    return _playing(LimitPolicy, ini=OLD.ini)


@defect(
    "aging/needs-both",
    what="what was used a moment ago ages too, as it was up to 6.0",
    editions=("8.0.RC2", "8.0.RC3", "9.0"),
)
def idling_does_not_matter() -> Policies:
    return _playing(AgingPolicy, idle_ns=0)


@defect(
    "aging/creates-ini",
    what="there is no op_cache.ini, as it was up to 6.0",
    editions=("7.0", "8.0.RC3", "9.0"),
)
def no_ini_yet() -> Policies:
    return _playing(DirectoryPolicy, ini=())


@defect(
    "cache-mode/directory-precedence",
    what="ASCEND_CACHE_PATH is not read, as it was up to 7.0",
    editions=("8.0.RC2", "8.0.RC3", "9.0"),
)
def no_cache_path_yet() -> Policies:
    return _playing(DirectoryPolicy, cache_path=False)
