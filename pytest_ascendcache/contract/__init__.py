"""What the documents promise: options, rules, verdicts, and expected outcomes as pure functions.

Nothing here touches a cache's files, starts a process, or knows a toolchain.
"""

from pytest_ascendcache.contract.aging import (
    AgedEntry,
    Aging,
    CacheLimits,
    expected_aging,
    expected_limits,
    possible_limits,
)
from pytest_ascendcache.contract.editions import Edition, NoEditionError
from pytest_ascendcache.contract.expectation import (
    bystander_fates,
    expected_outcomes,
    is_overridden,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.impl_mode import ImplModeTables, ModeTable
from pytest_ascendcache.contract.options import (
    DEFAULT_SOC,
    CacheMode,
    CompileOptions,
    DebugConfig,
    PrecisionFile,
    SelectMode,
    other_soc,
)
from pytest_ascendcache.contract.outcome import Delivered, EntryState, Fate, Outcome
from pytest_ascendcache.contract.rules import (
    Capability,
    Level,
    Rule,
    Source,
    foundations,
    load_rules,
    rules_for,
)
from pytest_ascendcache.contract.verdict import Verdict

__all__ = [
    "DEFAULT_SOC",
    "AgedEntry",
    "Aging",
    "CacheLimits",
    "CacheMode",
    "Capability",
    "CompileOptions",
    "DebugConfig",
    "Delivered",
    "Edition",
    "EntryState",
    "Fate",
    "ImplModeTables",
    "Level",
    "ModeTable",
    "NoEditionError",
    "Outcome",
    "PrecisionFile",
    "Rule",
    "SelectMode",
    "Source",
    "Verdict",
    "bystander_fates",
    "expected_aging",
    "expected_limits",
    "expected_outcomes",
    "foundations",
    "is_overridden",
    "is_under_debug",
    "list_excepts",
    "load_rules",
    "other_soc",
    "possible_limits",
    "rules_for",
]
