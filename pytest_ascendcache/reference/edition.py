"""The release of ATC that the reference plays, and how its documents differ from others.

This reading of the documents is independent of that of ``contract``. The variable
``ASCENDCACHE_REFERENCE_EDITION`` names the release; the default is 8.0.RC3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_ascendcache.reference.errors import AtcError

VARIABLE = "ASCENDCACHE_REFERENCE_EDITION"
"""The environment variable that selects the release."""

HALF_AN_HOUR_NS = 1800 * 10**9
"""Nanoseconds without an access after which an entry may be removed."""


@dataclass(frozen=True)
class Played:
    """The behaviour that differs between releases.

    * ``levels`` of ``--op_debug_level`` are debugging and turn the cache off.
    * ``list_excepts``: operators that ``op_debug_list`` does not name still use the cache.
    * ``ini`` are the keys of ``op_cache.ini``. Without keys the file is neither made nor read.
    * ``variables`` are the environment variables of size limit and ratio; ``share_unit`` may follow
      the ratio there.
    * ``idle_ns``: an entry may age if it was not accessed for longer; 0 if any entry may.
    * ``cache_path``: ``ASCEND_CACHE_PATH`` names the cache directory.
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
    **dict.fromkeys(("8.0.RC2", "8.0.RC3", "8.0", "8.1", "8.2", "8.5", "9.0", "9.1"), PRESENT),
}
"""The behaviour of each release that the reference can play."""


def played(environ: Mapping[str, str]) -> Played:
    """The behaviour of the release that the environment selects."""
    name = environ.get(VARIABLE, "8.0.RC3")
    if name not in RELEASES:
        known = ", ".join(RELEASES)
        raise AtcError("E10001", f"[{VARIABLE}={name}] is no release; use one of {known}.")
    return RELEASES[name]
