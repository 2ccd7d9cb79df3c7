"""The central table: the outcomes that the document allows for one compile.

Source: document C (``--op_compiler_cache_mode``), parameter values and constraints. Functions take
the edition of the document; the default is :func:`default`.
"""

from __future__ import annotations

from pytest_ascendcache.contract.editions import Edition, default
from pytest_ascendcache.contract.options import CacheMode, CompileOptions
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.contract.outcome import EntryState, Fate, Outcome


def is_under_debug(
    options: CompileOptions, operator_type: str, operator_name: str, edition: Edition | None = None
) -> bool | None:
    """Whether a debug switch keeps this operator out of the cache.

    ``None`` if the edition leaves that open, or if the list has the type in another case or behind
    another word than ``OpType``. From 8.0.RC3 on, a debug level other than 0 and a debug
    configuration without a list keep every operator out; a configuration with a list keeps the
    listed operators out.
    """
    edition = edition or default()
    overridden, config = is_overridden(options, edition), options.debug_config
    if overridden or config is None or config.listed is None:
        return overridden
    if edition.debug_config == "open":
        return None
    if config.lists(operator_type, operator_name):
        return True
    types = {each.partition("::")[2].lower() for each in config.listed if "::" in each}
    return None if operator_type.lower() in types else overridden


def expected_outcomes(
    mode: CacheMode, under_debug: bool | None, before: EntryState, listed: bool = False
) -> frozenset[Outcome]:
    """All outcomes that the document allows for one operator.

    ``listed`` means that ``op_debug_list`` puts the operator under debug. Then ``force`` has two
    outcomes, since the document can be read in two ways: ``force`` removes all entries of the SoC,
    yet a listed operator ignores the mode, so its entry may go or stay. If ``under_debug`` is
    ``None``, the document leaves it open, and the outcomes of both cases are allowed.
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
    """Whether operators that ``op_debug_list`` does not list may use the cache."""
    return (edition or default()).debug_list != "everything"


def is_overridden(options: CompileOptions, edition: Edition | None = None) -> bool | None:
    """Whether a debug switch keeps every operator out of the cache; ``None`` if that is open."""
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
    """The allowed fates of the SoC's valid entries that belong to no operator of the compile."""
    overridden = is_overridden(options, edition)
    if options.effective_mode is not CacheMode.FORCE or overridden:
        return frozenset({Fate.KEPT})
    both = frozenset({Fate.KEPT, Fate.REMOVED})
    return both if overridden is None else frozenset({Fate.REMOVED})
