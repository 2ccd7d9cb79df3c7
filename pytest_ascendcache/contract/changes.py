"""What one edition of a product's documents promises that another does not, or says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_ascendcache.contract.editions import Edition
from pytest_ascendcache.contract.rules import Rule, load_rules


class Kind(str, Enum):
    """How a promise changes from one edition to another. ``UNREAD``: what the earlier one says of
    it could not be read, so it may be new or not."""

    NEW = "new"
    GONE = "gone"
    DIFFERENT = "different"
    UNREAD = "unread"


@dataclass(frozen=True)
class Change:
    """One rule as both editions have it."""

    kind: Kind
    before: Rule
    after: Rule


class Advice(str, Enum):
    """What to do about an existing cache and its settings; each names a text."""

    REFRESH = "refresh"
    VARIABLES = "variables"
    INI_APPEARS = "ini_appears"
    INI_GOES = "ini_goes"
    INI_KEYS = "ini_keys"
    IDLE_APPEARS = "idle_appears"
    IDLE_GOES = "idle_goes"
    CACHE_PATH_APPEARS = "cache_path_appears"
    CACHE_PATH_GOES = "cache_path_goes"
    LEVELS = "levels"
    DEBUG_LIST = "debug_list"


def changes(before: Edition, after: Edition) -> list[Change]:
    """The rules that differ, in the order of the rule files.

    Raises:
        ValueError: for editions of two products.
    """
    if before.product != after.product:
        raise ValueError(f"{before} and {after} are editions of two products.")
    old, new = load_rules(before), load_rules(after)
    found = []
    for name, was in old.items():
        now = new[name]
        if now.unread or (was.promised_by and now.promised_by):
            continue  # nothing can be said of it, or there is nothing yet
        if was.unread:
            found += [] if now.promised_by else [Change(Kind.UNREAD, was, now)]
        elif was.promised_by or now.promised_by:
            found.append(Change(Kind.NEW if was.promised_by else Kind.GONE, was, now))
        elif (was.level, was.statement) != (now.level, now.statement):
            found.append(Change(Kind.DIFFERENT, was, now))
    return found


def advice(before: Edition, after: Edition) -> list[Advice]:
    """What a user of an existing cache has to do, the most general first."""
    if before.product != "cann" or before == after:
        return []
    found = [Advice.REFRESH]
    if before.variables != after.variables:
        found.append(Advice.VARIABLES)
    if before.ini != after.ini:
        appears, goes = not before.ini, not after.ini
        found.append(
            Advice.INI_APPEARS if appears else Advice.INI_GOES if goes else Advice.INI_KEYS
        )
    if bool(before.idle) != bool(after.idle):
        found.append(Advice.IDLE_APPEARS if after.idle else Advice.IDLE_GOES)
    if before.cache_path != after.cache_path:
        found.append(Advice.CACHE_PATH_APPEARS if after.cache_path else Advice.CACHE_PATH_GOES)
    if before.debug_levels != after.debug_levels:
        found.append(Advice.LEVELS)
    if before.debug_list != after.debug_list:
        found.append(Advice.DEBUG_LIST)
    return found
