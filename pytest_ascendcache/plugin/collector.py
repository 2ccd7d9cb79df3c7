"""Collects the verdict records of a run, and writes its reports at the end."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import STALE, Deviation, Occurrence
from pytest_ascendcache.language import text, translated
from pytest_ascendcache.observation.health import Health, health_of
from pytest_ascendcache.plugin.collection import SuiteModule, has_every_file
from pytest_ascendcache.plugin.description import Description
from pytest_ascendcache.plugin.gangs.items import CONTROLLER
from pytest_ascendcache.plugin.gangs.reports import RankRecord, whole_gang
from pytest_ascendcache.plugin.keeping import keep_evidence
from pytest_ascendcache.plugin.pace import Pace
from pytest_ascendcache.plugin.reporting import (
    tell_github,
    tell_junit,
    wants_report,
    without_failed_checks,
    write_files,
)
from pytest_ascendcache.plugin.selection import selecting_of
from pytest_ascendcache.plugin.session import AscendSession
from pytest_ascendcache.plugin.spreading import estimate
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.users_language import language_of, say
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.json_report import document
from pytest_ascendcache.reports.records import VerdictRecord
from pytest_ascendcache.reports.terminal import TerminalReport, write_news
from pytest_ascendcache.toolchains import Toolchain, ToolchainError
from pytest_ascendcache.words import count

_DESELECTED = "ascendcache_deselected"
_HEALTH = "ascendcache_health"


class Collector:
    """The plugin of a run that judges; registered where the options ask for checks of the suite.

    ``pytest_runtest_logreport`` collects a record from each report, ``pytest_sessionfinish`` makes
    the JSON document and writes the files, ``pytest_terminal_summary`` prints it. In an xdist run
    the controller's instance does that; those of the workers only count deselected checks.
    ``toolchain`` is None where only files are judged.
    """

    def __init__(self, config: pytest.Config, toolchain: Toolchain | None) -> None:
        self._config = config
        self._toolchain = toolchain
        self._settings = settings_of(config)
        self._alone: list[VerdictRecord] = []
        self._gangs: dict[str, list[RankRecord]] = {}
        self._expected: set[str] = set()
        self._deselected = 0
        self._health = Health()
        """How the runs of xdist's workers ended."""
        self._announced = False
        self._closing_lines: list[str] = []
        self._description = Description(config, toolchain)
        self._report: Document | None = None
        self._nothing_judged = ""
        self._is_worker = hasattr(config, "workerinput")
        self._pace = Pace()

    @property
    def _session(self) -> AscendSession:
        return ascend_session_of(self._config)

    @pytest.hookimpl(trylast=True)  # the header's first lines
    def pytest_report_header(self) -> list[str]:
        """Say what is judged, by which documents, and where."""
        host, toolchain = self._description.host(), " ".join(self._description.judged().values())
        lines = [f"{toolchain}, on {host['machine']}, {host['file_system']}"]
        if self._toolchain is not None and (details := self._toolchain.details):
            lines.append(", ".join(f"{name} {value}" for name, value in details.items()))
        judged_by = self._session.judged_by
        lines += [f"judged by the documents of {judged_by.line}", *judged_by.notices]
        if selecting := selecting_of(self._config):
            lines.append(selecting.header)
        lines += [f"audit of {each}" for each in self._settings.audit.directories]
        return [say(self._config, f"ascendcache: {line}") for line in lines]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._pace.note(report)
        data = getattr(report, "ascend_record", None)
        if data is None:
            return
        if not self._is_worker:
            tell_junit(self._config, report, data)
        record = VerdictRecord.from_dict(data)
        rank = getattr(report, "ascend_rank", None)
        if rank is None:
            self._alone.append(record)
        else:
            worker = getattr(report, "worker_id", "")
            of_rank = RankRecord(rank["rank"], rank["aborted"], record, rank["size"], worker)
            self._gangs.setdefault(rank["gang"], []).append(of_rank)
        self._alone += map(VerdictRecord.from_dict, getattr(report, "ascend_besides", ()))

    @property
    def _records(self) -> list[VerdictRecord]:
        """One record for each check; those of a gang's ranks on workers are merged into one. More
        of those whose runs broke other rules."""
        return [*self._alone, *(whole_gang(name, each) for name, each in self._gangs.items())]

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep the last entry of the traceback: pytest shows no more, but would first read the
        source of every entry, which takes seconds."""
        if not self._config.getoption("fulltrace", False):
            excinfo.traceback = excinfo.traceback[-1:]

    def adopt(self, records: Sequence[VerdictRecord]) -> None:
        """Take over the verdicts of an earlier run; called by the plugin of ``--ascend-resume``."""
        self._expected.update(record.check for record in records)
        self._alone += records

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        checks = [item.nodeid for item in session.items if item.get_closest_marker("ascend_rule")]
        self._expected.update(checks)
        if not self._is_worker:
            self._announce(checks, 1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        checks = [each for each in ids if each.startswith(SUITE_NODES)]
        self._expected.update(checks)
        self._announce(checks, len(self._config.getoption("tx", None) or "1"))

    def _announce(self, checks: Sequence[str], workers: int) -> None:
        """Print once, before the first check, how long the run will take."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if self._announced or self._config.option.collectonly or reporter is None or not checks:
            return
        self._announced = True
        # Without a toolchain nothing runs that takes time.
        line = "" if self._toolchain is None else estimate(self._session, checks, workers)
        self._pace.begin(workers)
        if line:
            reporter.write_line(say(self._config, f"ascendcache: {line}"))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the suite's checks that options left out, except those that the core omits."""
        selecting = selecting_of(self._config)
        without = selecting.does_without if selecting else frozenset()
        self._deselected += sum(
            each.getparent(SuiteModule) is not None and each.nodeid not in without for each in items
        )
        if self._is_worker:
            # The controller collects nothing itself, but must know that the run is not whole.
            # xdist gives the attribute to the configuration of its workers.
            self._config.workeroutput[_DESELECTED] = self._deselected  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output: Mapping[str, Any] = getattr(node, "workeroutput", {})
        self._deselected += output.get(_DESELECTED, 0)
        self._health.add(*output.get(_HEALTH, Health().numbers()))

    @property
    def _missing(self) -> int:
        """How many checks were selected and gave no verdict, because the run was cut short."""
        gangs = self._config.pluginmanager.getplugin(CONTROLLER)
        expected = {gangs.check_of(each) for each in self._expected} if gangs else self._expected
        return len(expected - {record.check for record in self._records})

    @property
    def _is_suite(self) -> bool:
        """Whether the run covers the suite or its core, without gaps."""
        left_out = self._missing or self._deselected or self._config.getoption("lf", False)
        folders = self._settings.folders
        return bool(folders) and not left_out and has_every_file(self._expected, folders)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._is_worker:
            numbers = self._own_health().numbers()
            self._config.workeroutput[_HEALTH] = numbers  # type: ignore[attr-defined]
        if self._is_worker or self._config.option.collectonly:
            return
        self._pace.end()
        stale = any(occurrence in STALE for _, occurrence in self._occurrences())
        green = session.exitstatus == pytest.ExitCode.OK
        self._nothing_judged = self._why_nothing_judged() if green else ""
        broken = any(each.verdict is Verdict.FAIL for each in self._alone)
        if green and (broken or self._nothing_judged or (stale and self._settings.strict)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._report = self._document(int(session.exitstatus))
        if wants_report(self._settings):
            problems = write_files(self._report, self._settings)
            if problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._closing_lines = [
                *(f"ERROR: {each}" for each in problems),
                *tell_github(self._report, language_of(self._config)),
            ]
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED and self._records:
            self._closing_lines += keep_evidence(self._report, self._histories())

    def _histories(self) -> list[Path]:
        """Histories of stress runs that lie beside the sandboxes, on whichever worker."""
        try:
            above = self._session.base.parent
        except ToolchainError:
            return []
        patterns = "ascendcache*/stress-*.jsonl", "*/ascendcache*/stress-*.jsonl"
        return sorted({each for pattern in patterns for each in above.glob(pattern)})

    def _occurrences(self) -> list[tuple[Deviation, Occurrence]]:
        """Whether each listed deviation occurred; empty if the run did not cover the suite."""
        if not self._is_suite or selecting_of(self._config) is not None:
            return []
        return self._description.occurrences(self._records)

    def _document(self, exit_status: int) -> Document:
        health = Health()
        for each in (self._health, self._own_health()):
            health.add(*each.numbers())
        records = self._records
        described = self._description.document(
            records,
            exit_status=exit_status,
            missing=self._missing,
            is_suite=self._is_suite,
            occurrences=self._occurrences(),
            health=health,
            pace=self._pace.document(),
        )
        return document(described, records, self._description.rules)

    def _own_health(self) -> Health:
        return Health() if self._toolchain is None else health_of(self._toolchain)

    def _why_nothing_judged(self) -> str:
        """Why a run without a failure judged nothing either; empty if it judged something."""
        records = self._records
        asked = self._settings.folders and not self._config.getoption("lf", False)
        if not records and asked:
            return "no check of the suite was run"
        if records and all(each.verdict is Verdict.NOT_APPLICABLE for each in records):
            return f"none of {count(len(records), 'check')} is applicable"
        starts = sum(each.evidence["starts"] for each in records)
        # A stress run counts its steps itself.
        is_stress = any(each.startswith("stress") for each in self._settings.folders)
        if self._is_suite and self._toolchain is not None and not (starts or is_stress):
            return "the toolchain was not run once"
        return ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Print the report after everything else, with the answer last."""
        with without_failed_checks(terminalreporter):
            yield
        report = self._report or self._document(int(pytest.ExitCode.INTERRUPTED))
        language = language_of(self._config)
        terminal = TerminalReport(terminalreporter, report, language)
        if self._records:
            terminal.write()
            if news := self._description.news(self._records):
                write_news(terminal, news)
            selecting = selecting_of(self._config)
            pace = "" if terminal.causes else self._pace.line()
            for line in (*(selecting.lines() if selecting else ()), pace):
                if line:
                    terminalreporter.line(say(self._config, line))
            terminal.write_answer()
        elif not self._config.option.collectonly:
            terminal.write_incomplete()
        if self._nothing_judged:
            reason = translated(self._nothing_judged, language)
            terminalreporter.line(text("t_nothing", language, reason=reason), red=True)
        for line in self._closing_lines:
            is_github = line.startswith("::")  # a workflow command, whose text is translated
            terminalreporter.line(
                line if is_github else say(self._config, line), red=line.startswith("ERROR")
            )
