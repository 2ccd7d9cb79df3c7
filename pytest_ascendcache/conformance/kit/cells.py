"""Compiling cells of the matrix, and judging what came out, in runs that checks share.

A cell is one combination of options; one run compiles all cells of a batch. Besides the operators'
own entries the cache holds the entry of an operator that is not compiled. If the cells vary the
limits it also holds four large idle entries: 1600 KB each, unused for 4, 3, 2 and 1 hours, 6400 KB
under a limit of 4 MB. At 90 % (3686 KB) the two oldest go, at 50 % (2048 KB) three.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import pytest

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.combinations import Before, Cell, Limits, Plan, minimise
from pytest_ascendcache.combinations.cell import options_of
from pytest_ascendcache.conformance.kit.implementations import tables_of, wrong_numbers
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, edit_ini
from pytest_ascendcache.conformance.kit.table import (
    HEALED,
    allowed_outcomes,
    alternatives,
    differs,
    healing_outcomes,
    lists_everything,
)
from pytest_ascendcache.conformance.kit.together import Caches, new_cache, take_over
from pytest_ascendcache.conformance.kit.vocabulary import needs
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
    is_overridden,
    is_under_debug,
)
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

BYSTANDER = operator_of("Add", (4, 8), (4, 8), name="bystander")
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
    """One run of a batch of cells, with everything that is needed to judge it.

    ``stale_sha256`` and ``environment`` belong to a stale entry: the digest of its kernel, and the
    variables under which it is stale. ``other`` are the options that another mode's entry was
    compiled with. ``failure`` says how the run failed although it succeeds without a cache.
    """

    cells: tuple[Cell, ...]
    cache: CacheUnderTest
    run: Run
    shelf: Shelf | None
    tables: ImplModeTables | None
    stale_sha256: str
    environment: dict[str, str] | None
    other: dict[OperatorSpec, dict[str, Any]]
    failure: str = ""

    @property
    def options(self) -> CompileOptions:
        """The options of the run."""
        return self.run.result.request.options

    @property
    def lists_everything(self) -> bool:
        """Whether ``op_debug_list`` lists every operator of the run."""
        return lists_everything(self.options, (cell.operator for cell in self.cells))


def observe(
    cache: CacheUnderTest, cells: tuple[Cell, ...], tables: ImplModeTables | None
) -> Observed:
    """Prepare an empty cache as the cells say, and compile all of them in one watched run."""
    options = options_of(cells)
    operators = tuple(cell.operator for cell in cells)
    chosen = _fields(options.entry_choice)
    environment, stale_sha256 = None, ""
    if cells[0].limits is not Limits.DEFAULT:
        # Rule aging/works-on-relatime judges aging on the mount at hand.
        keep_access_times(cache.sandbox, keep=False)
    other = {
        cell.operator: {**chosen, **_other_mode(options, cell.operator, tables)}
        for cell in cells
        if cell.before is Before.OTHER_MODE
    }
    if cells[0].before is Before.STALE:
        environment, stale_sha256 = _make_stale(cache, operators[0], chosen)
    else:
        states = tuple((cell.operator, cell.before) for cell in cells)
        key = (states, tuple(sorted(chosen.items(), key=str)))
        cache.prepare(key, lambda: _prepare(cache, cells, chosen, other))
    shelf = _limit(cache, cells[0], options.soc)
    run = cache.attempt(
        *operators,
        mode=options.cache_mode,
        environment={**cells[0].environment, **(environment or {})},
        **{**chosen, "debug_level": options.debug_level, "debug_config": options.debug_config},
    )
    failure = cache.failed_for_the_cache(run, environment)
    return Observed(cells, cache, run, shelf, tables, stale_sha256, environment, other, failure)


def _fields(options: CompileOptions) -> dict[str, Any]:
    """The options that are set, as arguments of a compile."""
    values = {each.name: getattr(options, each.name) for each in fields(CompileOptions)}
    return {name: value for name, value in values.items() if value is not None}


def _other_mode(
    options: CompileOptions, operator: OperatorSpec, tables: ImplModeTables | None
) -> dict[str, Any]:
    """Options that select another mode for the operator, in the same way if possible; merely
    different options if no options do."""
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
    """Warm the cache, then change the knowledge base.

    Returns the variables that name the knowledge base, and the digest of the old kernel.
    """
    change = cache.toolchain.stage(Capability.KNOWLEDGE_BASE, operator, cache.sandbox)
    environment = dict(change.environment)
    cache.warm(BYSTANDER, soc=chosen["soc"])
    cache.warm(operator, environment=environment, **chosen)
    sha256 = cache.entry(operator, **chosen).metadata["sha256"]
    change.apply()
    return environment, sha256


def _limit(cache: CacheUnderTest, cell: Cell, soc: str) -> Shelf | None:
    """Set the cell's limits, and lay the entries that age by them."""
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


def outcome_problems(observed: Observed, cell: Cell) -> list[str]:
    """How the outcome of a cell, and the fate of the other entries, differ from the table."""
    if observed.failure:
        return [observed.failure]
    outcome, allowed = observed.run[cell.operator], _allowed(observed, cell)
    problems = []
    if outcome not in allowed:
        problems.append(differs(outcome, alternatives(allowed)))
    problems += _wrong_fates(observed, cell)
    if observed.shelf is not None:
        problems += _wrong_aging(observed, observed.shelf, cell)
    return problems


def _allowed(observed: Observed, cell: Cell) -> frozenset[Outcome]:
    options, operator, edition = observed.options, cell.operator, observed.cache.edition

    def table(state: EntryState) -> frozenset[Outcome]:
        return allowed_outcomes(options, operator, edition, state)

    if cell.before is Before.STALE:
        # The document allows the old kernel (a known limitation), or a toolchain that notices.
        refreshed = {Outcome(D.COMPILED, Fate.REWRITTEN), Outcome(D.COMPILED, Fate.STORED)}
        valid = table(EntryState.VALID)
        return valid | refreshed if Outcome(D.REUSED, Fate.KEPT) in valid else valid
    if cell.before is not Before.OTHER_MODE:
        return table(_STATES[cell.before])
    none, valid = table(EntryState.NONE), table(EntryState.VALID)
    same = _same_kernel(observed, operator)
    if same is False:
        return none
    debug = is_under_debug(options, operator.type, operator.name, edition)
    if same is None or debug is not False:
        return none | valid
    # A run that neither reuses nor stores does not show whose the entry is.
    return valid | (none & {Outcome(D.COMPILED, Fate.ABSENT)})


def _same_kernel(observed: Observed, operator: OperatorSpec) -> bool | None:
    other = observed.options.but(**observed.other[operator])
    assert observed.tables is not None
    return observed.tables.same_kernel(observed.options, other, operator)


def _wrong_fates(observed: Observed, cell: Cell) -> list[str]:
    """What went wrong with entries nobody asked for: the bystander's, and another mode's."""
    allowed = set(bystander_fates(observed.options, observed.cache.edition))
    if observed.lists_everything:
        allowed.add(Fate.KEPT)
    operator, run = cell.operator, observed.run
    bystander = observed.cache.fate(run, BYSTANDER, soc=observed.options.soc)
    fates = {"the entry of another operator": bystander}
    if cell.before is Before.OTHER_MODE and _same_kernel(observed, operator) is False:
        other = observed.other[operator]
        fates["the other mode's entry"] = observed.cache.fate(run, operator, **other)
    expected = alternatives(fate.value for fate in allowed)
    return [
        differs(f"{what} {fate.value}", f"{what} {expected}")
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
    if observed.lists_everything:
        fine = fine or not gone or aging.allows(gone)
    if torn:
        return [f"half of an aged entry was left behind: {torn}"]
    if fine:
        return []
    return [
        differs(
            f"of idle entries {''.join(sorted(gone)) or 'none'} gone",
            f"{expected} ({limits.megabytes} MB, {limits.ratio} %)",
        )
    ]


def kernel_problems(observed: Observed, cell: Cell) -> list[str]:
    """How the delivered kernel differs from that of a fresh compile with the same options."""
    _needs_kernels(observed)
    operator = cell.operator
    delivered = observed.run.unmarked_sha256(operator)
    if observed.stale_sha256 and observed.run[operator] == Outcome(D.REUSED, Fate.KEPT):
        is_stale = delivered == observed.stale_sha256
        return [] if is_stale else ["the served kernel is not the entry's"]
    unlike = observed.cache.unlike_fresh(observed.run, observed.environment)
    if operator in unlike:
        return [f"not the kernel of a fresh compile: {unlike[operator]}"]
    return []


def number_problems(observed: Observed, cell: Cell) -> list[str]:
    """How the numbers of the delivered kernel break the promise of its implementation mode."""
    _needs_kernels(observed)
    toolchain = observed.cache.toolchain
    if observed.tables is None or Capability.RUN_KERNELS not in toolchain.capabilities:
        return []
    return wrong_numbers(toolchain, observed.run, observed.tables, [cell.operator])


def _needs_kernels(observed: Observed) -> None:
    if observed.failure:
        raise NotDecidable(f"no kernel was delivered: {observed.failure}")


def healing_problems(observed: Observed, cell: Cell) -> list[str]:
    """The problem of a damaged entry that a run with its operator should have replaced."""
    if observed.failure:
        return [observed.failure]
    healing = healing_outcomes(observed.options, cell.operator, observed.cache.edition)
    outcome = observed.run[cell.operator]
    return [differs(outcome, HEALED)] if healing and outcome not in healing else []


Problems = Callable[[Observed, Cell], list[str]]
"""Judges one cell of a run: the problems, empty for none."""

_MINIMISED = 3
"""Failing combinations that one process minimises: each costs some compiles."""


class PlannedCaches(Caches, Protocol):
    """The session: empty caches, and the cells to compile."""

    @property
    def plan(self) -> Plan:
        """The cells of this session, in batches."""


class CellRuns:
    """Compiles a cell, and its batch with it, when a check first asks for it.

    Only the last run is kept: checks of one batch follow each other.
    """

    def __init__(self, caches: PlannedCaches, toolchain: Toolchain) -> None:
        self._caches = caches
        self._toolchain = toolchain
        self._last: Observed | None = None
        self._keep = False
        self._minimised = 0

    @cached_property
    def tables(self) -> ImplModeTables | None:
        """The toolchain's tables of implementation modes, ``None`` if it names none. Raises
        NotDecidable if one of the tables is missing."""
        if Capability.IMPL_MODE_TABLES not in self._toolchain.capabilities:
            return None
        return tables_of(self._toolchain)

    def problems(self, cell: Cell, evidence: Evidence, problems: Problems) -> list[str]:
        """The problems of a cell; ``evidence`` gets the steps of its run."""
        needs(self._toolchain, Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT)
        evidence.factors = dict(cell.levels)
        observed = self._observed(cell, evidence)
        lines = problems(observed, cell)
        self._keep = self._keep or bool(lines)
        return lines

    def _observed(self, cell: Cell, evidence: Evidence) -> Observed:
        if self._last is not None and cell in self._last.cells:
            take_over(self._last.cache, evidence)
            return self._last
        self.close()
        cells = self._caches.plan.batches.get(cell, (cell,))
        cache = new_cache(self._caches, cell.id, evidence)
        if reason := cache.lacks(cell.levels["soc"], BYSTANDER):
            pytest.skip(reason)  # not applicable: the chip is not installed
        self._keep = True
        self._last = observe(cache, cells, self.tables)
        self._keep = False
        return self._last

    def explain(self, cell: Cell, problems: Problems) -> list[str]:
        """Describe the combination, and the smallest one with the same kind of problem."""
        lines = [f"combination: {cell}", f"options:     {self._options()}"]
        if self._minimised < _MINIMISED:
            self._minimised += 1
            lines.append(f"smallest:    {minimise(cell, lambda each: self._fails(each, problems))}")
        return lines

    def _options(self) -> str:
        """The options of the last run, without the file names that every run has."""
        assert self._last is not None
        everywhere = ("--singleop=", "--output=", "--op_compiler_cache_dir=")
        request = self._last.run.result.request
        variables = [f"{name}={value}" for name, value in request.environment.items()]
        argv = self._last.run.result.argv
        options = [
            each for each in argv if each.startswith("--") and not each.startswith(everywhere)
        ]
        sandbox = str(self._last.cache.sandbox)
        return shlex.join([*variables, *options]).replace(sandbox, "$SANDBOX")

    def _fails(self, cell: Cell, problems: Problems) -> bool:
        sandbox = self._caches.sandbox("smaller")
        try:
            cache = self._caches.cache(sandbox, Evidence())
            return bool(problems(observe(cache, (cell,), self.tables), cell))
        except (ToolchainError, NotDecidable, KernelRunError):
            return False
        finally:
            self._caches.discard(sandbox)

    def close(self) -> None:
        """Remove the sandbox of the last run, unless it belongs to a failure."""
        if self._last is not None and not self._keep:
            self._caches.discard(self._last.cache.sandbox)
        self._last, self._keep = None, False
