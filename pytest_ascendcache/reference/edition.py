"""Which release of ATC the reference plays: what its documents promised differently.

A reading of the documents of its own, beside that of ``contract``. The variable
``ASCENDCACHE_REFERENCE_EDITION`` names the release; where it is not set it is 8.0.RC3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_ascendcache.reference.errors import AtcError

VARIABLE = "ASCENDCACHE_REFERENCE_EDITION"
"""The variable that says which release is played."""

HALF_AN_HOUR_NS = 1800 * 10**9
"""Nanoseconds without an access after which an entry may go."""


@dataclass(frozen=True)
class Played:
    """What differs between releases.

    ``levels`` of ``--op_debug_level`` are debugging and turn the cache off; ``list_excepts``:
    ``op_debug_list`` leaves other operators to the cache. ``ini`` are the keys of ``op_cache.ini``
    (none: it is neither made nor read), ``variables`` those of the environment, ``share_unit``
    may stand behind a share there. ``idle_ns``: what may age was not accessed for longer; 0 where
    idling does not matter. ``cache_path``: ``ASCEND_CACHE_PATH`` names the directory.
    """

    levels: frozenset[int] = frozenset({1, 2, 3, 4})
    list_excepts: bool = True
    ini: tuple[str, ...] = ("max_op_cache_size", "remain_cache_size_ratio")
    variables: tuple[str, str] = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO")
    share_unit: str = ""
    idle_ns: int = HALF_AN_HOUR_NS
    cache_path: bool = True


PRESENT = Played()
"""8.0.RC3, and every release since."""

_OF_7 = replace(
    PRESENT,
    list_excepts=False,
    ini=("ascend_max_op_cache_size", "ascend_remain_cache_size_ratio"),
    cache_path=False,
)
_OF_6 = replace(_OF_7, ini=(), idle_ns=0)
_OF_5 = replace(
    _OF_6,
    levels=frozenset({1, 2}),
    variables=("MAX_OP_CACHE_SIZE", "REMAIN_CACHE_SIZE_RATIO"),
    share_unit="%",
)

RELEASES: Mapping[str, Played] = {
    "5.0": _OF_5,
    "6.0": _OF_6,
    "7.0": _OF_7,
    "8.0.RC2": PRESENT,
    "8.0.RC3": PRESENT,
    "8.0": PRESENT,
    "8.1": PRESENT,
    "8.2": PRESENT,
    "8.5": PRESENT,
    "9.0": PRESENT,
    "9.1": PRESENT,
}
"""What can be played, by release."""


def played(environ: Mapping[str, str]) -> Played:
    """The release that an environment asks for.

    Raises:
        AtcError: for one that cannot be played.
    """
    name = environ.get(VARIABLE, "8.0.RC3")
    if name not in RELEASES:
        known = ", ".join(RELEASES)
        raise AtcError("E10001", f"[{VARIABLE}={name}] is no release; use one of {known}.")
    return RELEASES[name]
