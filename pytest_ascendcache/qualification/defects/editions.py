"""Behaviour that is right in one release of CANN and wrong in another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
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


def _playing(*kinds, **parts):
    """Policies of these kinds that play parts of another release."""
    fixed = {"edition": _Fixed(**parts)}
    return [type(f"Other{kind.__name__}", (kind,), fixed) for kind in kinds]


@defect(LEVEL, editions=("5.0",))
def levels_of_6():
    """Levels 3 and 4 turn the cache off, as documents of 6.0 have it."""
    return _playing(ModePolicy, DebugPolicy, levels=RELEASES["6.0"].levels)


@defect(LEVEL, editions=("6.0", "7.0", "8.0.RC2", "8.0", "8.1", "8.5", "9.0"))
def levels_of_5():
    """Levels 3 and 4 keep the cache, as the document of 5.0 had it."""
    return _playing(ModePolicy, DebugPolicy, levels=RELEASES["5.0"].levels)


@defect(RATIO, SOURCES, editions=("5.0",))
def variables_of_6():
    """The variables are those of 6.0, which documents of 5.0 do not mention."""
    return _playing(LimitPolicy, variables=PRESENT.variables)


@defect(RATIO, SOURCES, editions=("6.0", "7.0", "8.0.RC3", "9.0"))
def variables_of_5():
    """The variables are still those of 5.0."""
    return _playing(LimitPolicy, variables=RELEASES["5.0"].variables)


@defect(RATIO, editions=("5.0",))
def percent_sign_is_refused():
    """A ratio with a percent sign is refused."""
    return _playing(LimitPolicy, share_unit="")


@defect(UNLISTED, editions=("6.0", "7.0"))
def list_excepts_already():
    """Operators that a debug list does not name use the cache, as from 8.0.RC3 on."""
    return _playing(ModePolicy, list_excepts=True)


@defect(UNLISTED, editions=("8.0.RC3", "8.0", "9.0"))
def list_excepts_none():
    """With a debug list no operator uses the cache, as up to 7.0."""
    return _playing(ModePolicy, list_excepts=False)


@defect(SOURCES, ALL_USERS, editions=("7.0",))
def keys_of_8():
    """Op_cache.ini is read with the keys of 8.0."""
    return _playing(LimitPolicy, ini=PRESENT.ini)


@defect(SOURCES, ALL_USERS, editions=("8.0.RC2", "8.0.RC3", "8.5", "9.0"))
def keys_of_7():
    """Op_cache.ini is still read with the keys of 7.0."""
    return _playing(LimitPolicy, ini=RELEASES["7.0"].ini)


@defect("aging/needs-both", editions=("8.0.RC2", "8.0.RC3", "9.0"))
def idling_does_not_matter():
    """Entries age even if they were just used, as up to 6.0."""
    return _playing(AgingPolicy, idle_ns=0)


@defect("aging/creates-ini", editions=("7.0", "8.0.RC3", "9.0"))
def no_ini_yet():
    """Op_cache.ini is not created, as up to 6.0."""
    return _playing(DirectoryPolicy, ini=())


@defect("cache-mode/directory-precedence", editions=("8.0.RC2", "8.0.RC3", "9.0"))
def no_cache_path_yet():
    """ASCEND_CACHE_PATH is not read, as up to 7.0."""
    return _playing(DirectoryPolicy, cache_path=False)
