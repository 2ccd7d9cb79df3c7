"""Compiling cells of the matrix, and judging what came out, in runs that checks share.

One run compiles all cells of a batch, beside the entry of an operator that is not compiled. If the
limits vary there are four idle entries of 1600 KB, unused for 4, 3, 2 and 1 hours, 6400 KB under a
limit of 4 MB: at 90 % (3686 KB) the two oldest go, at 50 % (2048 KB) three.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import pytest

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.combinations import Before, Cell, LimitSource, Plan, minimise
from pytest_ascendcache.combinations.cell import options_of
from pytest_ascendcache.conformance.kit.implementations import (
    chosen_modes,
    tables_of,
    wrong_numbers,
)
from pytest_ascendcache.conformance.kit.judge import Judge, Known
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, dated, edit_ini
from pytest_ascendcache.conformance.kit.together import Caches, new_cache, take_over
from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.contract import (
    Capability,
    CompileOptions,
    Fate,
    ImplModeTables,
    Outcome,
    PrecisionFile,
    SelectMode,
    expected_limits,
)
from pytest_ascendcache.contract.facts import Aspect, Delivery, Fact
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.contract.outcome import Delivered as D
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

BYSTANDER = operator_of("Add", (4, 8), (4, 8), name="bystander")
_IDLE, _HOURS, _SIZE = "abcd", (4.0, 3.0, 2.0, 1.0), 1600 * KILOBYTE

_KNOWN = {
    Before.NONE: Known.NONE,
    Before.VALID: Known.VALID,
    Before.DAMAGED: Known.DAMAGED,
    Before.HALF_OBJECT: Known.DAMAGED,
    Before.HALF_METADATA: Known.DAMAGED,
    Before.STALE: Known.OUTDATED,
}
_STORED = (Known.VALID, Known.DAMAGED)


@dataclass(frozen=True)
class Observed:
    """One run of a batch of cells, the ``number``-th of the check, with what is needed to judge it.

    ``stale_sha256`` is the digest of a stale kernel, and ``environment`` the variables under which
    it is stale. ``other`` are the options of another mode's entry. ``failure`` says how the run
    failed although it succeeds without a cache.
    """

    cells: tuple[Cell, ...]
    cache: CacheUnderTest
    run: Run
    number: int
    shelf: Shelf | None
    tables: ImplModeTables | None
    stale_sha256: str
    environment: dict[str, str] | None
    other: dict[OperatorSpec, dict[str, Any]]
    failure: str = ""

    @property
    def options(self) -> CompileOptions:
        return self.run.result.request.options

    @cached_property
    def judge(self) -> Judge:
        operators = tuple(cell.operator for cell in self.cells)
        return Judge(self.options, self.cache.edition, operators, self.number)

    def known(self, cell: Cell) -> Known:
        if cell.before is not Before.OTHER_MODE:
            return _KNOWN[cell.before]
        assert self.tables is not None
        other = self.options.but(**self.other[cell.operator])
        same = self.tables.same_kernel(self.options, other, cell.operator)
        return {True: Known.ALIKE, False: Known.NONE, None: Known.UNCLEAR}[same]


def observe(
    cache: CacheUnderTest, cells: tuple[Cell, ...], tables: ImplModeTables | None
) -> Observed:
    """Prepare an empty cache as the cells say, and compile all of them in one watched run."""
    options = options_of(cells)
    operators = tuple(cell.operator for cell in cells)
    chosen = _fields(options.entry_choice)
    environment, stale_sha256 = None, ""
    if cells[0].limits is not LimitSource.DEFAULT:
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
    number = len(cache.evidence.steps)
    failure = cache.failed_for_the_cache(run, environment)
    return Observed(
        cells, cache, run, number, shelf, tables, stale_sha256, environment, other, failure
    )


def _fields(options: CompileOptions) -> dict[str, Any]:
    """The options that are set, as arguments of a compile."""
    values = {each.name: getattr(options, each.name) for each in fields(CompileOptions)}
    return {name: value for name, value in values.items() if value is not None}


def _other_mode(
    options: CompileOptions, operator: OperatorSpec, tables: ImplModeTables | None
) -> dict[str, Any]:
    """Options that select another mode for the operator, in the same way if possible, or none."""
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
    own = [cell for cell in cells if _KNOWN.get(cell.before) in _STORED]
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
    """Warm the cache, then change the knowledge base. Returns its variables, and the old digest."""
    change = cache.toolchain.stage(Capability.KNOWLEDGE_BASE, operator, cache.sandbox)
    environment = dict(change.environment)
    cache.warm(BYSTANDER, soc=chosen["soc"])
    cache.warm(operator, environment=environment, **chosen)
    old = cache.entry(operator, **chosen).object_path.read_bytes()
    change.apply()
    return environment, sha256(old)


def _limit(cache: CacheUnderTest, cell: Cell, soc: str) -> Shelf | None:
    """Set the cell's limits, and lay the entries that age by them."""
    if cell.limits is LimitSource.DEFAULT:
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


def outcome_facts(observed: Observed, cell: Cell) -> list[Fact]:
    """How the outcome of a cell, and the fate of the other entries, differ from the table."""
    judge, operator, known = observed.judge, cell.operator, observed.known(cell)
    if observed.failure:
        return judge.ending(observed.run, observed.failure)
    facts = judge.outcome(operator, observed.run[operator], known)
    facts += judge.other(_fate(observed, BYSTANDER, soc=observed.options.soc), Known.VALID, "")
    if cell.before is Before.OTHER_MODE and known is Known.NONE:
        other = _fate(observed, operator, **observed.other[operator])
        facts += judge.other(other, Known.VALID, f"{operator} of the other mode")
    if observed.shelf is not None:
        try:
            facts += _aging_facts(observed, observed.shelf, cell, is_used=bool(facts))
        except NotDecidable:
            if not facts:
                raise
    return facts


def _fate(observed: Observed, operator: OperatorSpec, **options: Any) -> Fate:
    return observed.cache.fate(observed.run, operator, **options)


def _aging_facts(observed: Observed, shelf: Shelf, cell: Cell, *, is_used: bool) -> list[Fact]:
    edition = observed.cache.edition
    limits = expected_limits(cell.ini if edition.ini else None, cell.environment)
    judge = replace(observed.judge, subject=shelf.limiting(observed.run))
    due, gone = shelf.aged(observed.run, limits)
    return dated(observed.cache, judge.aging(due, _IDLE, gone, shelf.torn(), limits, is_used))


def kernel_facts(observed: Observed, cell: Cell) -> list[Fact]:
    """How the delivered kernel differs from that of a fresh compile with the same options."""
    _needs_kernels(observed)
    operator, stale = cell.operator, observed.stale_sha256
    delivered = observed.run.unmarked_sha256(operator)
    if stale and observed.run[operator] == Outcome(D.REUSED, Fate.KEPT):
        if delivered == stale:
            return []
        return [observed.judge.kernel(operator, detail="the served kernel is not the entry's")]
    if operator in observed.cache.unlike_fresh(observed.run, observed.environment):
        whose = Delivery.STALE if delivered == stale else Delivery.ANOTHER
        return [observed.judge.kernel(operator, whose)]
    return []


def number_facts(observed: Observed, cell: Cell) -> list[Fact]:
    """How the numbers of the delivered kernel break the promise of its implementation mode."""
    _needs_kernels(observed)
    assert observed.tables is not None  # the rule needs them, and kernels that run
    run = observed.run
    if not chosen_modes(run, observed.tables, [cell.operator]):
        pytest.skip("no option chooses an implementation of this operator")
    return wrong_numbers(observed.cache, run, observed.tables, [cell.operator], observed.number)


def _needs_kernels(observed: Observed) -> None:
    if observed.failure:
        raise NotDecidable(f"no kernel was delivered: {observed.failure}")


def healing_facts(observed: Observed, cell: Cell) -> list[Fact]:
    """A damaged entry that a run with its operator should have replaced."""
    if observed.failure:
        return observed.judge.ending(observed.run, observed.failure)
    if not observed.judge.has_to_heal(cell.operator):
        pytest.skip("no entry has to heal under a debug switch")
    return observed.judge.healing(cell.operator, observed.run[cell.operator])


Facts = Callable[[Observed, Cell], list[Fact]]
"""Judges one cell of a run: the facts, empty if every promise holds."""

Kinds = set[tuple[Aspect, str]]

_MINIMISED = 3
"""Failing combinations that one process minimises: each costs some compiles."""


class PlannedCaches(Caches, Protocol):
    """The session: empty caches, and the cells to compile."""

    @property
    def plan(self) -> Plan:
        """The cells of this session, in batches."""


class CellRuns:
    """Compiles a cell, and its batch with it, when a check first asks for it. Only the last run is
    kept: checks of one batch follow each other."""

    def __init__(self, caches: PlannedCaches, toolchain: Toolchain) -> None:
        self._caches = caches
        self._toolchain = toolchain
        self._last: Observed | None = None
        self._keep = False
        self._minimised = 0

    @cached_property
    def tables(self) -> ImplModeTables | None:
        """The tables of implementation modes, if any. Raises NotDecidable if one is missing."""
        if Capability.IMPL_MODE_TABLES not in self._toolchain.capabilities:
            return None
        return tables_of(self._toolchain)

    def facts(self, cell: Cell, evidence: Evidence, facts_of: Facts) -> list[Fact]:
        """The facts of a cell; ``evidence`` gets the steps of its run."""
        needs(self._toolchain, Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT)
        evidence.factors = dict(cell.levels)
        observed = self._observed(cell, evidence)
        facts = facts_of(observed, cell)
        self._keep = self._keep or bool(facts)
        return facts

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

    def explain(
        self, cell: Cell, facts_of: Facts, evidence: Evidence, facts: Sequence[Fact]
    ) -> list[str]:
        """Describe the combination, and the smallest one that shows the same kind of fact."""
        lines = [f"combination: {cell}", f"options:     {self._options()}"]
        if self._minimised < _MINIMISED:
            self._minimised += 1
            kinds = {(fact.aspect, fact.observed) for fact in facts}
            smallest = minimise(cell, lambda each: self._fails(each, facts_of, kinds))
            evidence.smallest = smallest.special
            lines.append(f"smallest:    {smallest}")
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

    def _fails(self, cell: Cell, facts_of: Facts, kinds: Kinds) -> bool:
        sandbox = self._caches.sandbox("smaller")
        try:
            cache = self._caches.cache(sandbox, Evidence())
            facts = facts_of(observe(cache, (cell,), self.tables), cell)
            return any((fact.aspect, fact.observed) in kinds for fact in facts)
        except (ToolchainError, NotDecidable, KernelRunError, pytest.skip.Exception):
            return False
        finally:
            self._caches.discard(sandbox)

    def close(self) -> None:
        """Remove the sandbox of the last run, unless it belongs to a failure."""
        if self._last is not None and not self._keep:
            self._caches.discard(self._last.cache.sandbox)
        self._last, self._keep = None, False
