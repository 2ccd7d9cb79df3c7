"""Writes down what ``--ascend-audit-fix`` suggests to remove."""

from __future__ import annotations

import pytest

from pytest_ascendcache.audit import write_plan
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of


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
        path = settings_of(config).audit.fix
        assert path is not None
        plans = ascend_session_of(config).audits.plan()
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
