"""The audits of a session: each directory is looked at once, and what to remove is written down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.audit import Audit, RemovalPlan, audit, count_files, write_plan
from pytest_ascendcache.plugin.stash import ascend_session_of
from pytest_ascendcache.reports.progress import run_progress, terminal_stream

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.audit import AuditSettings


class Audits:
    """Made on first use; one a process, so that every xdist worker looks for itself."""

    def __init__(self, config: pytest.Config, settings: AuditSettings) -> None:
        self._config = config
        self._settings = settings
        self._known: dict[Path, Audit] = {}
        self._plans: dict[Path, RemovalPlan] = {}

    def of(self, directory: Path) -> Audit:
        """The audit of a directory, done now if this is the first use."""
        if directory not in self._known:
            self._known[directory] = self._look(directory)
        return self._known[directory]

    def _look(self, directory: Path) -> Audit:
        suggest = None
        if self._settings.fix is not None:
            self._plans[directory] = RemovalPlan(directory)
            suggest = self._plans[directory].add
        with terminal_stream(self._config) as watched:
            total = count_files(directory) if watched is not None else None
        with run_progress(self._config, f"audit of {directory.name}", total, "files") as advance:
            return audit(directory, suggest=suggest, advance=advance)

    def plan(self) -> list[RemovalPlan]:
        """What to remove of all directories; those another process looked at are looked at now."""
        for directory in self._settings.directories:
            self.of(directory)
        return list(self._plans.values())


class PlanWriter:
    """The part of the plugin that is there only with ``--ascend-audit-fix``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._told = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        config = self._config
        if hasattr(config, "workerinput") or config.option.collectonly:
            return
        ascend = ascend_session_of(config)
        path = ascend.settings.audit.fix
        assert path is not None
        plans = ascend.audits.plan()
        entries = sum(plan.entries for plan in plans)
        try:
            write_plan(path, plans)
        except OSError as error:
            self._told = f"ERROR: --ascend-audit-fix={path} cannot be written: {error.strerror}."
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            self._told = f"removal of {entries} entries or files suggested in {path}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._told:
            terminalreporter.line(self._told, red=self._told.startswith("ERROR"))
