"""The central table: what one compile has to deliver, and what has to become of the entry.

Source: document C (``--op_compiler_cache_mode``), parameter values and constraints.
"""

from __future__ import annotations

from pytest_ascendcache.contract.options import CacheMode, CompileOptions
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.contract.outcome import EntryState, Fate, Outcome


def is_under_debug(options: CompileOptions, operator_type: str, operator_name: str) -> bool:
    """Whether a debug switch takes this operator out of the cache's reach.

    A level other than 0 and a configuration without a list take every operator out; a
    configuration with a list takes out the listed ones.
    """
    if options.debug_level:
        return True
    config = options.debug_config
    if config is None:
        return False
    return config.listed is None or config.lists(operator_type, operator_name)


def expected_outcomes(
    mode: CacheMode, under_debug: bool, before: EntryState, listed: bool = False
) -> frozenset[Outcome]:
    """Every outcome the document allows for one operator.

    ``listed`` says that it is ``op_debug_list`` that puts the operator under debug. Only there
    more than one outcome is allowed, for the document can be read in two ways: ``force`` removes
    all entries of the SoC, and yet a listed operator ignores the mode, so its entry may stay or
    go.
    """
    exists = before is not EntryState.NONE
    untouched = Fate.KEPT if exists else Fate.ABSENT
    if under_debug:
        allowed = {Outcome(D.COMPILED, untouched)}
        if listed and mode is CacheMode.FORCE and exists:
            allowed.add(Outcome(D.COMPILED, Fate.REMOVED))
        return frozenset(allowed)
    if mode is CacheMode.DISABLE:
        return frozenset({Outcome(D.COMPILED, untouched)})
    if mode is CacheMode.ENABLE and before is EntryState.VALID:
        return frozenset({Outcome(D.REUSED, Fate.KEPT)})
    return frozenset({Outcome(D.COMPILED, Fate.REWRITTEN if exists else Fate.STORED)})


def bystander_fates(options: CompileOptions) -> frozenset[Fate]:
    """What may become of valid entries that no operator of the compile owns, on its SoC.

    Under force they go, unless a debug switch overrides the mode for every operator.
    """
    if options.effective_mode is not CacheMode.FORCE or options.debug_level:
        return frozenset({Fate.KEPT})
    if options.debug_config is not None and options.debug_config.listed is None:
        return frozenset({Fate.KEPT})
    return frozenset({Fate.REMOVED})
