"""Compiling combinations, and what is wrong with what came out.

One start of the toolchain compiles every cell of a batch. Beside the operators' own entries the
cache holds one of an operator that is not compiled, and, where limits vary, four large ones that
nobody used for hours: 1600 KB each, idle for 4, 3, 2 and 1 hours, 6400 KB under a limit of 4 MB.
At 90 % (3686 KB) the two oldest go, at 50 % (2048 KB) three.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.combinations import Before, Cell, Limits
from pytest_ascendcache.combinations.cell import options_of
from pytest_ascendcache.conformance.kit.implementations import wrong_numbers
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, edit_ini
from pytest_ascendcache.contract import (
    Capability,
    CompileOptions,
    EntryState,
    Fate,
    ImplModeTables,
    Outcome,
    PrecisionFile,
    SelectMode,
    bystander_fates,
    expected_limits,
    expected_outcomes,
    is_overridden,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import Toolchain

_TENSOR = TensorDesc.of("float32", 4, 8)
BYSTANDER = OperatorSpec("Add", (_TENSOR, _TENSOR), (_TENSOR,), name="bystander")
_IDLE, _HOURS, _SIZE = "abcd", (4.0, 3.0, 2.0, 1.0), 1600 * KILOBYTE

_STATES = {
    Before.NONE: EntryState.NONE,
    Before.VALID: EntryState.VALID,
    Before.DAMAGED: EntryState.DAMAGED,
    Before.HALF_OBJECT: EntryState.DAMAGED,
    Before.HALF_METADATA: EntryState.DAMAGED,
}


@dataclass(frozen=True)
class Observed:
    """One start, and all that is needed to judge it.

    ``old`` and ``environment`` are of a stale entry: the digest of the kernel it has, and the
    variables under which it is stale. ``other`` are the options the other mode's entry has.
    ``failure`` says how a start failed that succeeds without a cache.
    """

    cells: tuple[Cell, ...]
    cache: CacheUnderTest
    run: Run
    shelf: Shelf | None
    tables: ImplModeTables | None
    old: str
    environment: dict[str, str] | None
    other: dict[OperatorSpec, dict[str, Any]]
    failure: str = ""

    @property
    def options(self) -> CompileOptions:
        """What the start was asked for."""
        return self.run.result.request.options

    @property
    def all_listed(self) -> bool:
        """Whether ``op_debug_list`` leaves no operator to the cache: what becomes of the rest of
        it under enable or force is then left open by document C."""
        config = self.options.debug_config
        if config is None or config.listed is None or self.options.debug_level:
            return False
        return all(config.lists(each.operator.type, each.operator.name) for each in self.cells)


def observe(
    cache: CacheUnderTest, cells: tuple[Cell, ...], tables: ImplModeTables | None
) -> Observed:
    """Prepare an empty cache as the cells say, compile them in one start, and watch."""
    options = options_of(cells)
    operators = tuple(cell.operator for cell in cells)
    chosen = _fields(options.entry_choice)
    environment, old = None, ""
    if cells[0].limits is not Limits.DEFAULT:
        # Aging on the mount at hand is the business of aging/works-on-relatime.
        keep_access_times(cache.sandbox, keep=False)
    other = {
        cell.operator: {**chosen, **_other_mode(options, cell.operator, tables)}
        for cell in cells
        if cell.before is Before.OTHER_MODE
    }
    if cells[0].before is Before.STALE:
        environment, old = _make_stale(cache, operators[0], chosen)
    else:
        states = tuple((cell.operator, cell.before) for cell in cells)
        key = (states, tuple(sorted(chosen.items(), key=str)))
        cache.prepare(key, lambda: _prepare(cache, cells, chosen, other))
    shelf = _limit(cache, cells[0], options.soc)
    run = cache.attempt(
        *operators,
        mode=options.cache_mode,
        environment={**cells[0].environment, **(environment or {})},
        **{**chosen, **_debug(options)},
    )
    failure = cache.failed_for_the_cache(run, environment)
    return Observed(cells, cache, run, shelf, tables, old, environment, other, failure)


def _fields(options: CompileOptions) -> dict[str, Any]:
    names = (each.name for each in fields(CompileOptions))
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _debug(options: CompileOptions) -> dict[str, Any]:
    return {"debug_level": options.debug_level, "debug_config": options.debug_config}


def _other_mode(
    options: CompileOptions, operator: OperatorSpec, tables: ImplModeTables | None
) -> dict[str, Any]:
    """Options that give the operator another mode, by the same means; just other options where
    none do."""
    candidates: list[dict[str, Any]] = [
        {"select_implmode": mode, "implmode_types": None, "precision_file": None}
        for mode in (SelectMode.HIGH_PRECISION_FOR_ALL, SelectMode.HIGH_PERFORMANCE_FOR_ALL)
    ]
    if options.precision_file is not None:
        modes = (HIGH_PRECISION, HIGH_PERFORMANCE)
        files = [PrecisionFile.of({operator.type: mode}) for mode in modes]
        candidates = [{"precision_file": each} for each in files] + candidates
    for each in candidates:
        if tables and tables.same_kernel(options, options.but(**each), operator) is False:
            return each
    return candidates[0]


def _prepare(
    cache: CacheUnderTest,
    cells: Iterable[Cell],
    chosen: dict[str, Any],
    other: dict[OperatorSpec, dict[str, Any]],
) -> None:
    own = [cell for cell in cells if cell.before in _STATES and cell.before is not Before.NONE]
    cache.warm(BYSTANDER, soc=chosen["soc"])
    if own:
        cache.warm(*(cell.operator for cell in own), **chosen)
    for operator, options in other.items():
        cache.warm(operator, **options)
    for cell in own:
        entry = cache.entry(cell.operator, **chosen)
        if cell.before is Before.DAMAGED:
            DAMAGES[1].apply(entry)
        elif cell.before is Before.HALF_OBJECT:
            entry.metadata_path.unlink()
        elif cell.before is Before.HALF_METADATA:
            entry.object_path.unlink()


def _make_stale(
    cache: CacheUnderTest, operator: OperatorSpec, chosen: dict[str, Any]
) -> tuple[dict[str, str], str]:
    """Change the knowledge base after warming up; its variables, and the old kernel's digest."""
    change = cache.toolchain.stage(Capability.KNOWLEDGE_BASE, operator, cache.sandbox)
    environment = dict(change.environment)
    cache.warm(BYSTANDER, soc=chosen["soc"])
    cache.warm(operator, environment=environment, **chosen)
    old = cache.entry(operator, **chosen).metadata["sha256"]
    change.apply()
    return environment, old


def _limit(cache: CacheUnderTest, cell: Cell, soc: str) -> Shelf | None:
    """Set limits, and put in what ages by them."""
    if cell.limits is Limits.DEFAULT:
        return None
    cache.mark()
    now = time.time()
    for path in cache.layout.soc(soc).iterdir():
        os.utime(path, (now, path.stat().st_mtime), follow_symlinks=False)
    if cell.ini and cache.edition.ini:
        edit_ini(cache, cell.ini)
    shelf = Shelf(cache, soc).lay(_IDLE, _SIZE, *_HOURS)
    cache.leave_alone(shelf.entry(name).stem for name in _IDLE)
    return shelf


# --- judging --------------------------------------------------------------------------------


def outcome_problems(observed: Observed, cell: Cell) -> list[str]:
    """What was delivered, or became of an entry, against the central table."""
    if observed.failure:
        return [observed.failure]
    outcome, allowed = observed.run[cell.operator], _allowed(observed, cell)
    problems = []
    if outcome not in allowed:
        expected = " or ".join(sorted(map(str, allowed)))
        problems.append(f"observed: {outcome}\nexpected: {expected}")
    problems += _wrong_fates(observed, cell)
    if observed.shelf is not None:
        problems += _wrong_aging(observed, observed.shelf, cell)
    return problems


def _allowed(observed: Observed, cell: Cell) -> frozenset[Outcome]:
    options, operator = observed.options, cell.operator
    edition = observed.cache.edition
    debug = is_under_debug(options, operator.type, operator.name, edition)
    config = options.debug_config
    listed = list_excepts(edition) and debug is not False and not options.debug_level
    listed = listed and config is not None and config.listed is not None

    def table(state: EntryState) -> frozenset[Outcome]:
        return expected_outcomes(options.effective_mode, debug, state, listed)

    if cell.before is Before.STALE:
        # The documented limitation, or a toolchain that notices: of both the document speaks.
        refreshed = {Outcome(D.COMPILED, Fate.REWRITTEN), Outcome(D.COMPILED, Fate.STORED)}
        valid = table(EntryState.VALID)
        return valid | refreshed if Outcome(D.REUSED, Fate.KEPT) in valid else valid
    if cell.before is not Before.OTHER_MODE:
        allowed = table(_STATES[cell.before])
        if cell.before is Before.NONE or cell.before is Before.VALID:
            return allowed
        # That damage is healed is a rule of its own.
        return allowed | {Outcome(D.COMPILED, fate) for fate in (Fate.KEPT, Fate.REMOVED)}
    same = _same_kernel(observed, operator)
    none, valid = table(EntryState.NONE), table(EntryState.VALID)
    if same is False:
        return none
    # Where nothing is reused or stored, whose entry it is cannot be seen, and does not matter.
    return none | valid if same is None or debug is not False else valid | _untouched(none)


def _untouched(outcomes: frozenset[Outcome]) -> frozenset[Outcome]:
    return frozenset({Outcome(D.COMPILED, Fate.ABSENT)}) & outcomes


def _same_kernel(observed: Observed, operator: OperatorSpec) -> bool | None:
    other = observed.options.but(**observed.other[operator])
    assert observed.tables is not None
    return observed.tables.same_kernel(observed.options, other, operator)


def _wrong_fates(observed: Observed, cell: Cell) -> list[str]:
    """Entries nobody asked for: the bystander's, and another mode's."""
    allowed = set(bystander_fates(observed.options, observed.cache.edition))
    if observed.all_listed:
        allowed.add(Fate.KEPT)
    operator, run = cell.operator, observed.run
    bystander = observed.cache.fate(run, BYSTANDER, soc=observed.options.soc)
    fates = {"the entry of another operator": bystander}
    if cell.before is Before.OTHER_MODE and _same_kernel(observed, operator) is False:
        other = observed.other[operator]
        fates["the other mode's entry"] = observed.cache.fate(run, operator, **other)
    expected = " or ".join(sorted(fate.value for fate in allowed))
    return [
        f"observed: {what} {fate.value}\nexpected: {what} {expected}"
        for what, fate in fates.items()
        if fate not in allowed
    ]


def _wrong_aging(observed: Observed, shelf: Shelf, cell: Cell) -> list[str]:
    edition = observed.cache.edition
    limits = expected_limits(cell.ini if edition.ini else None, cell.environment)
    aging = shelf.expected(observed.run, limits)
    options = observed.options
    gone, torn = set(shelf.gone()), shelf.torn()
    purged = bystander_fates(options, edition) == {Fate.REMOVED}
    overridden = is_overridden(options, edition)
    closed = options.effective_mode.value == "disable" or overridden is True
    if overridden is None and not closed:
        return []  # the document does not say whether the cache is used
    if purged:
        fine, expected = gone == set(_IDLE), "all (purged)"
    elif closed:
        fine, expected = not gone, "none (the cache is not used)"
    else:
        fine, expected = aging.allows(gone), "".join(sorted(aging.must_go)) or "none"
    if observed.all_listed:
        fine = fine or not gone or aging.allows(gone)
    if torn:
        return [f"half of an aged entry was left behind: {torn}"]
    if fine:
        return []
    return [
        f"observed: of idle entries {''.join(sorted(gone)) or 'none'} gone\nexpected: {expected} "
        f"({limits.megabytes} MB, {limits.ratio} %)"
    ]


def kernel_problems(observed: Observed, cell: Cell) -> list[str]:
    """Whether the delivered kernel is what a fresh compile with the same options gives."""
    _delivered(observed)
    operator = cell.operator
    delivered = observed.run.unmarked_sha256(operator)
    if observed.old and observed.run[operator] == Outcome(D.REUSED, Fate.KEPT):
        return [] if delivered == observed.old else ["the served kernel is not the entry's"]
    unlike = observed.cache.unlike_fresh(observed.run, observed.environment)
    if operator in unlike:
        return [f"not the kernel of a fresh compile: {unlike[operator]}"]
    return []


def number_problems(observed: Observed, cell: Cell, toolchain: Toolchain) -> list[str]:
    """Whether the delivered kernel computes what its implementation mode promises."""
    _delivered(observed)
    if observed.tables is None or Capability.RUN_KERNELS not in toolchain.capabilities:
        return []
    return wrong_numbers(toolchain, observed.run, observed.tables, [cell.operator])


def _delivered(observed: Observed) -> None:
    if observed.failure:
        raise NotDecidable(f"no kernel was delivered: {observed.failure}")


def healing_problems(observed: Observed, cell: Cell) -> list[str]:
    """Whether a damaged entry was replaced where the operator's kernel is stored."""
    if observed.failure:
        return [observed.failure]
    expected = expected_outcomes(
        observed.options.effective_mode,
        is_under_debug(
            observed.options, cell.operator.type, cell.operator.name, observed.cache.edition
        ),
        EntryState.DAMAGED,
    )
    outcome = observed.run[cell.operator]
    if Outcome(D.COMPILED, Fate.REWRITTEN) not in expected or outcome in expected:
        return []
    return [f"observed: {outcome}\nexpected: {Outcome(D.COMPILED, Fate.REWRITTEN)}"]
