"""The central table: what one compile has to deliver, and what has to become of the entry.

Source: document C (``--op_compiler_cache_mode``), parameter values and constraints, in the edition
that is given; the default one where none is.
"""

from __future__ import annotations

from pytest_ascendcache.contract.editions import Edition, default
from pytest_ascendcache.contract.options import CacheMode, CompileOptions
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.contract.outcome import EntryState, Fate, Outcome


def is_under_debug(
    options: CompileOptions,
    operator_type: str,
    operator_name: str,
    edition: Edition | None = None,
) -> bool | None:
    """Whether a debug switch takes this operator out of the cache's reach; ``None`` where the
    edition leaves that open.

    From 8.0.RC3 on a level other than 0 and a configuration without a list take every operator
    out; a configuration with a list takes out the listed ones.
    """
    edition = edition or default()
    overridden, config = is_overridden(options, edition), options.debug_config
    if overridden or config is None or config.listed is None:
        return overridden
    if edition.debug_config == "open":
        return None
    return config.lists(operator_type, operator_name) or overridden


def expected_outcomes(
    mode: CacheMode, under_debug: bool | None, before: EntryState, listed: bool = False
) -> frozenset[Outcome]:
    """Every outcome the document allows for one operator.

    ``listed`` says that it is ``op_debug_list`` that puts the operator under debug. Only there
    more than one outcome is allowed, for the document can be read in two ways: ``force`` removes
    all entries of the SoC, and yet a listed operator ignores the mode, so its entry may stay or
    go. Where ``under_debug`` is ``None`` the document does not say, and both readings are allowed.
    """
    if under_debug is None:
        on, off = (expected_outcomes(mode, each, before, listed) for each in (True, False))
        return on | off
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


def list_excepts(edition: Edition | None = None) -> bool:
    """Whether ``op_debug_list`` may leave operators outside of it in the cache's reach."""
    return (edition or default()).debug_list != "everything"


def is_overridden(options: CompileOptions, edition: Edition | None = None) -> bool | None:
    """Whether a debug switch overrides the mode for every operator, so that the cache is not used
    at all; ``None`` where the edition leaves that open."""
    edition = edition or default()
    if (options.debug_level or 0) in edition.debug_levels:
        return True
    config = options.debug_config
    if config is None:
        return False
    if config.listed is None or edition.debug_list == "everything":
        return True if edition.debug_config == "bypasses" else None
    return False if edition.debug_list == "listed" else None


def bystander_fates(options: CompileOptions, edition: Edition | None = None) -> frozenset[Fate]:
    """What may become of valid entries that no operator of the compile owns, on its SoC.

    Under force they go, unless a debug switch overrides the mode for every operator.
    """
    overridden = is_overridden(options, edition)
    if options.effective_mode is not CacheMode.FORCE or overridden:
        return frozenset({Fate.KEPT})
    both = frozenset({Fate.KEPT, Fate.REMOVED})
    return both if overridden is None else frozenset({Fate.REMOVED})
