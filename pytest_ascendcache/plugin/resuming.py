"""``--ascend-resume``: what an earlier run decided is not judged again."""

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
from pytest_ascendcache.plugin.summary import in_its_language
from pytest_ascendcache.reports.journal import Journal, JournalError
from pytest_ascendcache.reports.records import VerdictRecord

_DECIDED = "ascendcache_decided"
_LEFT_OUT = "ascendcache_left_out"
_OF_FILES = (f"{SUITE_NODES}audit/", f"{SUITE_NODES}release/")
"""What these folders judge may have been changed since; looking again costs next to nothing, for
finished conversions of models are kept."""

_WHOLE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""How a run ends in which every check that was chosen was judged."""


def join_resuming(config: pytest.Config, adopt: Callable[[Sequence[VerdictRecord]], None]) -> None:
    """Register what ``--ascend-resume`` needs; ``adopt`` takes the records of earlier runs.

    Raises:
        pytest.UsageError: where the file cannot be used.
    """
    settings = settings_of(config)
    if settings.resume is None or config.option.collectonly:
        return
    plugin: object
    if hasattr(config, "workerinput"):
        plugin = _Worker(config)
    else:
        toolchain = ascend_session_of(config).toolchain
        identity = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": {
                "name": toolchain.name,
                "version": toolchain.version,
                **toolchain.details,
            },
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


def _leave_out(items: list[pytest.Item], decided: set[str]) -> list[str]:
    """Take the checks that are decided out of the items; their names."""
    left_out = [item.nodeid for item in items if item.nodeid in decided]
    items[:] = [item for item in items if item.nodeid not in decided]
    return left_out


class _Worker:
    """The part in an xdist worker: the controller says what is decided, all have the same."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Any = config

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        decided = set(self._config.workerinput.get(_DECIDED, ()))
        self._config.workeroutput[_LEFT_OUT] = _leave_out(items, decided)


class _Resuming:
    """Writes the journal, and hands over what it already holds."""

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
        # A rank's record is half of one; gangs are judged again.
        if record is None or getattr(report, "ascend_rank", None) is not None:
            return
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
            # There is nothing to go on with; a later run judges the release anew.
            shutil.rmtree(conversions_beside(self._journal.path), ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        path = settings_of(self._config).resume
        if self._left_out:
            count = len(self._left_out)
            told = f"{count} of the verdicts are an earlier run's, from {path}"
            terminalreporter.line(in_its_language(self._config, told))
        if self._lost:
            told = f"ERROR: --ascend-resume={path} cannot be written: {self._lost}."
            terminalreporter.line(in_its_language(self._config, told), red=True)

    def pytest_unconfigure(self) -> None:
        self._journal.close()
