"""The audits of a session, and the plan of ``--ascend-audit-fix`` that suggests removals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pytest_ascendcache.audit import Audit, RemovalPlan, audit, write_plan
from pytest_ascendcache.contract import Edition
from pytest_ascendcache.plugin.users_language import say


class Audits:
    """Audits directories, each once. Every xdist worker has its own and looks for itself.

    With ``suggests``, each audit also collects what to remove, as a plan.
    """

    def __init__(self, suggests: bool, edition: Edition) -> None:
        self._suggests = suggests
        self._edition = edition
        self._plans: dict[Path, RemovalPlan] = {}
        self.of = cache(self._audit)

    def _audit(self, directory: Path) -> Audit:
        suggest = None
        if self._suggests:
            plan = self._plans[directory] = RemovalPlan(directory)
            suggest = plan.add
        return audit(directory, suggest=suggest, edition=self._edition)

    def plan(self, directory: Path) -> RemovalPlan:
        """What to remove from a directory; it is audited now if a worker did so before."""
        self.of(directory)
        return self._plans[directory]


class PlanWriter:
    """Writes the removal plan at the end of a run; registered with ``--ascend-audit-fix``.

    ``plans`` returns the plans of all audited directories.
    """

    def __init__(
        self, config: pytest.Config, path: Path, plans: Callable[[], list[RemovalPlan]]
    ) -> None:
        self._config = config
        self._path = path
        self._plans = plans
        self._line = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput") or self._config.option.collectonly:
            return
        plans = self._plans()
        try:
            write_plan(self._path, plans)
        except OSError as error:
            self._line = (
                f"ERROR: --ascend-audit-fix={self._path} cannot be written: {error.strerror}."
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            entries = sum(plan.entries for plan in plans)
            self._line = f"removal of {entries} entries or files suggested in {self._path}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._line:
            terminalreporter.line(say(self._config, self._line), red=self._line.startswith("ERROR"))
