"""Behaviour that is right in one release of CANN and wrong in another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_ascendcache.qualification.catalogue import register
from pytest_ascendcache.reference.cache.aging import AgingPolicy
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.edition import PRESENT, RELEASES, Played
from pytest_ascendcache.reference.mode import ModePolicy

LEVEL = "debug/level-bypasses"
UNLISTED = "debug/list-caches-unlisted"
RATIO = "aging/keeps-ratio"
SOURCES = "aging/ini-beats-environment"
ALL_USERS = "aging/ini-for-all-users"


class _Fixed:
    """The edition of a policy, with some parts of another release, whichever is played."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def __get__(self, policy: Any, _: type) -> Any:
        return self if policy is None else replace(policy.__dict__["played"], **self._parts)

    def __set__(self, policy: Any, edition: Played) -> None:
        policy.__dict__["played"] = edition


def _playing(name, *breaks, what, editions, kinds, **parts):
    """Register a defect in which policies of these kinds play parts of another release."""
    fixed = {"edition": _Fixed(**parts)}
    register(
        name,
        *breaks,
        what=what,
        parts=[type(f"Other{kind.__name__}", (kind,), fixed) for kind in kinds],
        editions=tuple(editions.split()),
    )


_playing(
    "levels-of-6",
    LEVEL,
    what="levels 3 and 4 turn the cache off, as documents of 6.0 have it",
    editions="5.0",
    kinds=[ModePolicy, DebugPolicy],
    levels=RELEASES["6.0"].levels,
)
_playing(
    "levels-of-5",
    LEVEL,
    what="levels 3 and 4 keep the cache, as the document of 5.0 had it",
    editions="6.0 7.0 8.0.RC2 8.0 8.1 8.5 9.0",
    kinds=[ModePolicy, DebugPolicy],
    levels=RELEASES["5.0"].levels,
)
_playing(
    "variables-of-6",
    RATIO,
    SOURCES,
    what="the variables are those of 6.0, which documents of 5.0 do not mention",
    editions="5.0",
    kinds=[LimitPolicy],
    variables=PRESENT.variables,
)
_playing(
    "variables-of-5",
    RATIO,
    SOURCES,
    what="the variables are still those of 5.0",
    editions="6.0 7.0 8.0.RC3 9.0",
    kinds=[LimitPolicy],
    variables=RELEASES["5.0"].variables,
)
_playing(
    "percent-sign-is-refused",
    RATIO,
    what="a ratio with a percent sign is refused",
    editions="5.0",
    kinds=[LimitPolicy],
    share_unit="",
)
_playing(
    "list-excepts-already",
    UNLISTED,
    what="operators that a debug list does not name use the cache, as from 8.0.RC3 on",
    editions="6.0 7.0",
    kinds=[ModePolicy],
    list_excepts=True,
)
_playing(
    "list-excepts-none",
    UNLISTED,
    what="with a debug list no operator uses the cache, as up to 7.0",
    editions="8.0.RC3 8.0 9.0",
    kinds=[ModePolicy],
    list_excepts=False,
)
_playing(
    "keys-of-8",
    SOURCES,
    ALL_USERS,
    what="op_cache.ini is read with the keys of 8.0",
    editions="7.0",
    kinds=[LimitPolicy],
    ini=PRESENT.ini,
)
_playing(
    "keys-of-7",
    SOURCES,
    ALL_USERS,
    what="op_cache.ini is still read with the keys of 7.0",
    editions="8.0.RC2 8.0.RC3 8.5 9.0",
    kinds=[LimitPolicy],
    ini=RELEASES["7.0"].ini,
)
_playing(
    "idling-does-not-matter",
    "aging/needs-both",
    what="entries age even if they were just used, as up to 6.0",
    editions="8.0.RC2 8.0.RC3 9.0",
    kinds=[AgingPolicy],
    idle_ns=0,
)
_playing(
    "no-ini-yet",
    "aging/creates-ini",
    what="op_cache.ini is not created, as up to 6.0",
    editions="7.0 8.0.RC3 9.0",
    kinds=[DirectoryPolicy],
    ini=(),
)
_playing(
    "no-cache-path-yet",
    "cache-mode/directory-precedence",
    what="ASCEND_CACHE_PATH is not read, as up to 7.0",
    editions="8.0.RC2 8.0.RC3 9.0",
    kinds=[DirectoryPolicy],
    cache_path=False,
)
