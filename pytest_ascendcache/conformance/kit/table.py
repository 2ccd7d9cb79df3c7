"""The contract's central table, asked about one operator of a run.

Both the matrix of combinations and the lives of a cache judge by these functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ascendcache.contract import (
    CompileOptions,
    Edition,
    EntryState,
    Fate,
    Outcome,
    expected_outcomes,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.outcome import COMPILED
from pytest_ascendcache.operators import OperatorSpec

HEALED = Outcome(COMPILED, Fate.REWRITTEN)
"""The outcome of a run that replaces a damaged entry."""


def differs(observed: object, expected: object) -> str:
    """The two lines with which a message tells what was observed and what the table allows."""
    return f"observed: {observed}\nexpected: {expected}"


def alternatives(allowed: Iterable[object]) -> str:
    """Several allowed outcomes or fates, for :func:`differs`."""
    return " or ".join(sorted(map(str, allowed)))


def allowed_outcomes(
    options: CompileOptions, operator: OperatorSpec, edition: Edition, state: EntryState
) -> frozenset[Outcome]:
    """Every outcome that the table allows an operator whose entry is in this state.

    A damaged entry may also stay or go: whether it heals is a rule of its own.
    """
    debug = is_under_debug(options, operator.type, operator.name, edition)
    config = options.debug_config
    by_list = config is not None and config.listed is not None and not options.debug_level
    listed = by_list and debug is not False and list_excepts(edition)
    allowed = expected_outcomes(options.effective_mode, debug, state, listed)
    if state is EntryState.DAMAGED:
        allowed |= {Outcome(COMPILED, fate) for fate in (Fate.KEPT, Fate.REMOVED)}
    return allowed


def healing_outcomes(
    options: CompileOptions, operator: OperatorSpec, edition: Edition
) -> frozenset[Outcome]:
    """The outcomes that heal a damaged entry; empty if the run need not heal it."""
    debug = is_under_debug(options, operator.type, operator.name, edition)
    expected = expected_outcomes(options.effective_mode, debug, EntryState.DAMAGED)
    return expected if HEALED in expected else frozenset()


def lists_everything(options: CompileOptions, operators: Iterable[OperatorSpec]) -> bool:
    """Whether ``op_debug_list`` lists every operator of a run.

    Document C leaves open what enable and force then do to the other entries of the cache.
    """
    config = options.debug_config
    if config is None or config.listed is None or options.debug_level:
        return False
    return all(config.lists(each.type, each.name) for each in operators)
