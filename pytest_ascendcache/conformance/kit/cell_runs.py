"""Runs of the matrix's cells, shared by the checks that ask for them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import pytest

from pytest_ascendcache.combinations import Cell, Plan, minimise
from pytest_ascendcache.conformance.kit.cells import BYSTANDER, Observed, observe
from pytest_ascendcache.conformance.kit.together import Caches, new_cache, take_over
from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.contract import Capability, ImplModeTables
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

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
        try:
            return ImplModeTables.read(self._toolchain.impl_mode_tables())
        except KeyError as missing:
            raise NotDecidable(f"{self._toolchain.name} has no table {missing}.ini") from None

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
