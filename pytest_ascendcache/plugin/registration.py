"""Registers the plugins of one run. Which of them a run needs is decided here and nowhere else."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

import pytest

from pytest_ascendcache.audit import write_plan
from pytest_ascendcache.combinations import seed
from pytest_ascendcache.plugin.accounting import Accounting
from pytest_ascendcache.plugin.collector import Collector
from pytest_ascendcache.plugin.elementary import Elementary
from pytest_ascendcache.plugin.resuming import join_resuming
from pytest_ascendcache.plugin.selection import join_selecting
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.users_language import say


def register_plugins(config: pytest.Config) -> None:
    """Register what a run of the suite needs, and check the toolchain's name.

    Names are checked before anything is collected: a wrong one is one usage error, not an error of
    every check. Raises ``pytest.UsageError`` if the toolchain, the budget or the journal cannot be
    used.
    """
    settings, session = settings_of(config), ascend_session_of(config)
    if settings.judges:
        seed.choose(settings.seed)
    if settings.looks or not settings.judges:
        if settings.typed:
            _ = session.toolchain
        return
    _end_as_interrupted(config)
    collector = Collector(config, session.toolchain if settings.needs_toolchain else None)
    config.pluginmanager.register(collector, "ascendcache-collector")
    if settings.audit.fix is not None:
        config.pluginmanager.register(PlanWriter(config), "ascendcache-plan")
    config.pluginmanager.register(Elementary(config), "ascendcache-elementary")
    config.pluginmanager.register(Accounting(config), "ascendcache-accounting")
    join_selecting(config)
    join_resuming(config, collector.adopt)


def _end_as_interrupted(config: pytest.Config) -> None:
    """Have SIGTERM end the run as Ctrl-C does, with summary, report and resume file. Forked
    processes die of it as before; another plugin's handler stays."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    owner = os.getpid()

    def interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() == owner:
            raise KeyboardInterrupt("SIGTERM")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def restore() -> None:
        if os.getpid() == owner:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, interrupt)
    config.add_cleanup(restore)


class PlanWriter:
    """Writes the removal plan of all audited directories at the end of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._line = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput") or self._config.option.collectonly:
            return
        asked, audits = settings_of(self._config).audit, ascend_session_of(self._config).audits
        assert asked.fix is not None
        plans = [audits.plan(each) for each in asked.directories]
        try:
            write_plan(asked.fix, plans)
        except OSError as error:
            self._line = (
                f"ERROR: --ascend-audit-fix={asked.fix} cannot be written: {error.strerror}."
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            entries = sum(plan.entries for plan in plans)
            self._line = f"removal of {entries} entries or files suggested in {asked.fix}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._line:
            terminalreporter.line(say(self._config, self._line), red=self._line.startswith("ERROR"))
