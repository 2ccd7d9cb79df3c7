"""Runs of the matrix's cells, kept until the last check that asks for them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pytest

from pytest_ascendcache.combinations import Cell, Plan, minimise
from pytest_ascendcache.conformance.kit.cells import BYSTANDER, Observed, observe
from pytest_ascendcache.contract import Capability, ImplModeTables
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

Problems = Callable[[Observed, Cell], list[str]]
"""What is wrong with one cell of a start; empty for nothing."""

_MINIMISED = 3
"""Failing combinations that are minimised in one process: each costs some compiles."""


class Caches(Protocol):
    """Where empty caches come from: the session."""

    @property
    def plan(self) -> Plan:
        """The cells of this session."""

    def sandbox(self, name: str) -> Path:
        """A new empty directory."""

    def cache(self, sandbox: Path, evidence: Evidence) -> CacheUnderTest:
        """A cache under test in it."""

    def discard(self, sandbox: Path) -> None:
        """Remove a directory."""


class CellRuns:
    """Compiles a cell when it is first asked for, and its batch with it.

    Only the last start is kept: checks of one batch follow each other.
    """

    def __init__(self, caches: Caches, toolchain: Toolchain) -> None:
        self._caches = caches
        self._toolchain = toolchain
        self._last: Observed | None = None
        self._keep = False
        self._minimised = 0

    @cached_property
    def tables(self) -> ImplModeTables | None:
        """The toolchain's tables of implementation modes, where they can be had.

        Raises:
            NotDecidable: where one of them is missing.
        """
        if Capability.IMPL_MODE_TABLES not in self._toolchain.capabilities:
            return None
        try:
            return ImplModeTables.read(self._toolchain.impl_mode_tables())
        except KeyError as missing:
            raise NotDecidable(f"{self._toolchain.name} has no table {missing}.ini") from None

    def problems(self, cell: Cell, evidence: Evidence, problems: Problems) -> list[str]:
        """What is wrong with a cell; ``evidence`` gets the steps of its start."""
        for needed in (Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT):
            if needed not in self._toolchain.capabilities:
                pytest.skip(f"{self._toolchain.name}: {needed.lacking}")
        evidence.factors = dict(cell.levels)
        observed = self._observed(cell, evidence)
        found = problems(observed, cell)
        self._keep = self._keep or bool(found)
        return found

    def _observed(self, cell: Cell, evidence: Evidence) -> Observed:
        if self._last is not None and cell in self._last.cells:
            last = self._last.cache.evidence
            evidence.sandbox, evidence.control = last.sandbox, last.control
            evidence.steps += last.steps
            evidence.ran(self._last.cache.witness)
            # What is compiled from now on, as fresh kernels are, is this check's.
            self._last.cache.evidence = evidence
            return self._last
        self.close()
        cells = self._caches.plan.batches.get(cell, (cell,))
        cache = self._new_cache(cell, evidence)
        if reason := cache.lacks(cell.levels["soc"], BYSTANDER):
            pytest.skip(reason)  # not applicable: the chip is not installed
        self._keep = True
        self._last = observe(cache, cells, self.tables)
        self._keep = False
        return self._last

    def _new_cache(self, cell: Cell, evidence: Evidence) -> CacheUnderTest:
        sandbox = self._caches.sandbox(cell.id)
        evidence.sandbox = str(sandbox)
        return self._caches.cache(sandbox, evidence)

    def explain(self, cell: Cell, problems: Problems) -> list[str]:
        """The combination, and the smallest one with the same kind of problem."""
        lines = [f"combination: {cell}", f"options:     {self._options()}"]
        if self._minimised < _MINIMISED:
            self._minimised += 1
            lines.append(f"smallest:    {minimise(cell, lambda each: self._fails(each, problems))}")
        return lines

    def _options(self) -> str:
        """The last start's options, but for the places of files every start has."""
        assert self._last is not None
        everywhere = ("--singleop=", "--output=", "--op_compiler_cache_dir=")
        request = self._last.run.result.request
        variables = [f"{name}={value}" for name, value in request.environment.items()]
        argv = self._last.run.result.argv
        given = [each for each in argv if each.startswith("--") and not each.startswith(everywhere)]
        sandbox = str(self._last.cache.sandbox)
        return shlex.join([*variables, *given]).replace(sandbox, "$SANDBOX")

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
        """Remove what the last run left, unless it belongs to a failure."""
        if self._last is not None and not self._keep:
            self._caches.discard(self._last.cache.sandbox)
        self._last, self._keep = None, False
