"""Gathers verdict records during the run and hands them to the writers at its end."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.fixtures import ascend_session_of
from pytest_ascendcache.gangs import CONTROLLER
from pytest_ascendcache.reports.gangs import RankRecord, WorkerRank, whole_gang
from pytest_ascendcache.reports.json_report import write_json
from pytest_ascendcache.reports.records import VerdictRecord, by_rule
from pytest_ascendcache.reports.terminal import write_summary
from pytest_ascendcache.suite import SUITE_NODES
from pytest_ascendcache.toolchains import Toolchain, ToolchainError


class Collector:
    """The part of the plugin that is there only with ``--ascend-cache``."""

    def __init__(self, config: pytest.Config, toolchain: Toolchain) -> None:
        self._config = config
        self._toolchain = toolchain
        self._alone: list[VerdictRecord] = []
        self._gangs: dict[str, list[WorkerRank]] = {}
        self._expected: set[str] = set()
        self._unwritten = ""
        self._is_worker = hasattr(config, "workerinput")

    def header(self) -> list[str]:
        """Lines at the top of a run: what is judged, and where."""
        host = self.host()
        return [
            f"ascendcache: {self._toolchain.name} {self._toolchain.version}, on "
            f"{host['machine']}, {host['file_system']}"
        ]

    def host(self) -> dict[str, str]:
        """The machine and the file system of the sandboxes."""
        return {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "file_system": self._file_system(),
        }

    def _file_system(self) -> str:
        try:
            return str(ascend_session_of(self._config).file_system)
        except (ToolchainError, OSError) as error:
            # Every check will say so too; the header must not be the end of the run.
            return f"no usable temporary directory: {error}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "ascend_record", None)
        if record is None:
            return
        rank = getattr(report, "ascend_rank", None)
        if rank is None:
            self._alone.append(VerdictRecord.from_dict(record))
        else:
            worker = getattr(report, "worker_id", "")
            self._gangs.setdefault(rank["gang"], []).append(
                WorkerRank(
                    RankRecord(rank["rank"], rank["aborted"], VerdictRecord.from_dict(record)),
                    rank["size"],
                    worker,
                )
            )

    @property
    def _records(self) -> list[VerdictRecord]:
        """One record a check; ranks that were tests of workers are one check again."""
        return [*self._alone, *(whole_gang(name, each) for name, each in self._gangs.items())]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect(
            item.nodeid for item in session.items if item.get_closest_marker("ascend_rule")
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._expect(each for each in ids if each.startswith(SUITE_NODES))

    def _expect(self, checks: Iterable[str]) -> None:
        self._expected.update(checks)

    @property
    def _missing(self) -> int:
        """Checks that were selected and gave no verdict: the run was cut short."""
        gangs = self._config.pluginmanager.getplugin(CONTROLLER)
        expected = {gangs.check_of(each) for each in self._expected} if gangs else self._expected
        return len(expected - {record.check for record in self._records})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        path = ascend_session_of(self._config).settings.report
        if path is None or self._is_worker or self._config.option.collectonly:
            return
        try:
            self._write(path, int(session.exitstatus))
        except OSError as error:
            # Said in the summary: what was found must not be lost with the file.
            self._unwritten = f"--ascend-report={path} cannot be written: {error.strerror}."
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _write(self, path: Path, exit_status: int) -> None:
        description = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": {"name": self._toolchain.name, "version": self._toolchain.version},
            "host": self.host(),
            "exit_status": exit_status,
            "checks_without_verdict": self._missing,
        }
        write_json(path, description, by_rule(self._records, load_rules()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._records:
            write_summary(terminalreporter, by_rule(self._records, load_rules()), self._missing)
        if self._unwritten:
            terminalreporter.line(f"ERROR: {self._unwritten}", red=True)
