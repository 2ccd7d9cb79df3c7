"""The differences between two editions of a product's documents, and advice on upgrading."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_ascendcache.contract.editions import Edition
from pytest_ascendcache.contract.rules import Rule, load_rules


class ChangeKind(str, Enum):
    """How a promise changes from one edition to the next.

    ``UNREAD``: the page of the earlier edition could not be read, so the promise may be new or not.
    """

    NEW = "new"
    GONE = "gone"
    DIFFERENT = "different"
    UNREAD = "unread"


@dataclass(frozen=True)
class RuleChange:
    """A rule in both editions."""

    kind: ChangeKind
    before: Rule
    after: Rule


class Advice(str, Enum):
    """Advice about an existing cache and its settings. Each value is the key of a text."""

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


def changes(before: Edition, after: Edition) -> list[RuleChange]:
    """The rules that differ between two editions of a product, in the order of the rule files.
    Raises ``ValueError`` for editions of two products."""
    if before.product != after.product:
        raise ValueError(f"{before} and {after} are editions of two products.")
    old, new = load_rules(before), load_rules(after)
    kinds = {name: _kind(rule, new[name]) for name, rule in old.items()}
    return [RuleChange(kind, old[name], new[name]) for name, kind in kinds.items() if kind]


def _kind(before: Rule, after: Rule) -> ChangeKind | None:
    if after.unread or (before.promised_by and after.promised_by):
        return None  # unknown, or neither edition promises it
    if before.unread:
        return None if after.promised_by else ChangeKind.UNREAD
    if before.promised_by or after.promised_by:
        return ChangeKind.NEW if before.promised_by else ChangeKind.GONE
    same = (before.level, before.statement) == (after.level, after.statement)
    return None if same else ChangeKind.DIFFERENT


def advice(before: Edition, after: Edition) -> list[Advice]:
    """What a user of an existing cache has to do, the most general advice first."""
    if before.product != "cann" or before == after:
        return []
    ini = Advice.INI_KEYS
    if not (before.ini and after.ini):
        ini = Advice.INI_APPEARS if after.ini else Advice.INI_GOES
    idle = Advice.IDLE_APPEARS if after.idle else Advice.IDLE_GOES
    cache_path = Advice.CACHE_PATH_APPEARS if after.cache_path else Advice.CACHE_PATH_GOES
    differences = {
        Advice.VARIABLES: before.variables != after.variables,
        ini: before.ini != after.ini,
        idle: bool(before.idle) != bool(after.idle),
        cache_path: before.cache_path != after.cache_path,
        Advice.LEVELS: before.debug_levels != after.debug_levels,
        Advice.DEBUG_LIST: before.debug_list != after.debug_list,
    }
    return [Advice.REFRESH, *(each for each, differs in differences.items() if differs)]
