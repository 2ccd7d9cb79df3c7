"""``--ascend-resume``: checks that an interrupted run decided are not run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.plugin.options.places import conversions_beside
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.users_language import say
from pytest_ascendcache.reports.journal import Journal, JournalError
from pytest_ascendcache.reports.records import VerdictRecord

_DECIDED = "ascendcache_decided"
_LEFT_OUT = "ascendcache_left_out"
_OF_FILES = (f"{SUITE_NODES}audit/", f"{SUITE_NODES}release/")
"""Checks of files, which may have changed since, are run again. That costs next to nothing, because
finished conversions of models are kept."""

_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Exit statuses of a run that judged every selected check."""


def join_resuming(config: pytest.Config, adopt: Callable[[Sequence[VerdictRecord]], None]) -> None:
    """Register the plugin for ``--ascend-resume``; ``adopt`` receives the records of earlier runs.
    Raises ``pytest.UsageError`` if the file cannot be used."""
    settings = settings_of(config)
    if settings.resume is None or config.option.collectonly:
        return
    plugin: object
    if hasattr(config, "workerinput"):
        plugin = _Worker(config)
    else:
        identity = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": _judged(config),
            "options": [each for each in settings.arguments if "-timeout=" not in each],
        }
        try:
            journal = Journal(settings.resume, identity)
        except JournalError as error:
            raise pytest.UsageError(f"--ascend-resume: {error}") from None
        except OSError as error:
            raise pytest.UsageError(
                f"--ascend-resume={settings.resume} cannot be written: {error.strerror}."
            ) from None
        plugin = _Resuming(config, journal, adopt)
    config.pluginmanager.register(plugin, "ascendcache-resuming")


def _judged(config: pytest.Config) -> dict[str, str]:
    """The toolchain that the verdicts are about; empty where only files are judged."""
    if not settings_of(config).needs_toolchain:
        return {}
    toolchain = ascend_session_of(config).toolchain
    return {"name": toolchain.name, "version": toolchain.version, **toolchain.details}


def _leave_out(items: list[pytest.Item], decided: set[str]) -> list[str]:
    """Remove the decided checks from the items; returns their node ids."""
    left_out = [item.nodeid for item in items if item.nodeid in decided]
    items[:] = [item for item in items if item.nodeid not in decided]
    return left_out


class _Worker:
    """The part in an xdist worker. The controller sends the decided checks, so that all workers
    collect the same tests; the worker sends back what it left out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Any = config

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        decided = set(self._config.workerinput.get(_DECIDED, ()))
        self._config.workeroutput[_LEFT_OUT] = _leave_out(items, decided)


class _Resuming:
    """The part in the controller, or in a run without xdist: leaves decided checks out, gives their
    records to the collector, and appends each new one to the journal."""

    def __init__(
        self,
        config: pytest.Config,
        journal: Journal,
        adopt: Callable[[Sequence[VerdictRecord]], None],
    ) -> None:
        self._config = config
        self._journal = journal
        self._decided = {
            check: record
            for check, record in journal.decided.items()
            if not check.startswith(_OF_FILES)
        }
        self._adopt = adopt
        self._left_out: set[str] = set()
        self._lost = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._take(_leave_out(items, set(self._decided)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_DECIDED] = list(self._decided)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._take(getattr(node, "workeroutput", {}).get(_LEFT_OUT, ()))

    def _take(self, checks: Sequence[str]) -> None:
        new = [check for check in checks if check not in self._left_out]
        self._left_out.update(new)
        self._adopt([self._decided[check] for check in new])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "ascend_record", None)
        # The record of one rank is not the check's verdict; gangs are judged again.
        if record is None or getattr(report, "ascend_rank", None) is not None:
            return
        if getattr(report, "ascend_besides", ()):
            return  # what else its runs broke has to be told again
        try:
            self._journal.append(record)
        except OSError as error:
            self._lost = str(error.strerror)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        earlier = [self._decided[check].verdict for check in self._left_out]
        if earlier and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        broken = Verdict.FAIL in earlier or bool(self._lost)
        if broken and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

        if not (session.shouldstop or session.shouldfail) and session.exitstatus in _WHOLE:
            # Nothing is left to resume; a later run judges the release from the beginning.
            shutil.rmtree(conversions_beside(self._journal.path), ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        path = settings_of(self._config).resume
        if self._left_out:
            line = f"{len(self._left_out)} of the verdicts are an earlier run's, from {path}"
            terminalreporter.line(say(self._config, line))
        if self._lost:
            line = f"ERROR: --ascend-resume={path} cannot be written: {self._lost}."
            terminalreporter.line(say(self._config, line), red=True)

    def pytest_unconfigure(self) -> None:
        self._journal.close()
