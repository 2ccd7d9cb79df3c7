"""What the documents promise: options, rules, verdicts, and expected outcomes as pure functions.

Nothing here touches a cache's files, starts a process, or knows a toolchain.
"""

from pytest_ascendcache.contract.aging import AgedEntry as AgedEntry
from pytest_ascendcache.contract.aging import Aging as Aging
from pytest_ascendcache.contract.aging import CacheLimits as CacheLimits
from pytest_ascendcache.contract.aging import expected_aging as expected_aging
from pytest_ascendcache.contract.aging import expected_limits as expected_limits
from pytest_ascendcache.contract.aging import possible_limits as possible_limits
from pytest_ascendcache.contract.editions import Edition as Edition
from pytest_ascendcache.contract.editions import NoEditionError as NoEditionError
from pytest_ascendcache.contract.expectation import bystander_fates as bystander_fates
from pytest_ascendcache.contract.expectation import expected_outcomes as expected_outcomes
from pytest_ascendcache.contract.expectation import is_overridden as is_overridden
from pytest_ascendcache.contract.expectation import is_under_debug as is_under_debug
from pytest_ascendcache.contract.expectation import list_excepts as list_excepts
from pytest_ascendcache.contract.impl_mode import ImplModeTables as ImplModeTables
from pytest_ascendcache.contract.impl_mode import ModeTable as ModeTable
from pytest_ascendcache.contract.options import DEFAULT_SOC as DEFAULT_SOC
from pytest_ascendcache.contract.options import CacheMode as CacheMode
from pytest_ascendcache.contract.options import CompileOptions as CompileOptions
from pytest_ascendcache.contract.options import DebugConfig as DebugConfig
from pytest_ascendcache.contract.options import PrecisionFile as PrecisionFile
from pytest_ascendcache.contract.options import SelectMode as SelectMode
from pytest_ascendcache.contract.options import other_soc as other_soc
from pytest_ascendcache.contract.outcome import Delivered as Delivered
from pytest_ascendcache.contract.outcome import EntryState as EntryState
from pytest_ascendcache.contract.outcome import Fate as Fate
from pytest_ascendcache.contract.outcome import Outcome as Outcome
from pytest_ascendcache.contract.rules import Capability as Capability
from pytest_ascendcache.contract.rules import Level as Level
from pytest_ascendcache.contract.rules import Rule as Rule
from pytest_ascendcache.contract.rules import Source as Source
from pytest_ascendcache.contract.rules import foundations as foundations
from pytest_ascendcache.contract.rules import load_rules as load_rules
from pytest_ascendcache.contract.rules import rules_for as rules_for
from pytest_ascendcache.contract.verdict import Verdict as Verdict
