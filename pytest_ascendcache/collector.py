"""Gathers verdict records during the run and hands them to the writers at its end."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.fixtures import ascend_session_of
from pytest_ascendcache.reports.json_report import write_json
from pytest_ascendcache.reports.records import VerdictRecord, by_rule
from pytest_ascendcache.reports.terminal import write_summary
from pytest_ascendcache.toolchains import Toolchain


class Collector:
    """The part of the plugin that is there only with ``--ascend-cache``."""

    def __init__(self, config: pytest.Config, toolchain: Toolchain) -> None:
        self._config = config
        self._toolchain = toolchain
        self._records: list[VerdictRecord] = []
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
            "file_system": str(ascend_session_of(self._config).file_system),
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = getattr(report, "ascend_record", None)
        if record is not None:
            self._records.append(VerdictRecord.from_dict(record))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        path = ascend_session_of(self._config).settings.report
        if path is not None and not self._is_worker:
            self._write(path)

    def _write(self, path: Path) -> None:
        description = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": {"name": self._toolchain.name, "version": self._toolchain.version},
            "host": self.host(),
        }
        try:
            write_json(path, description, by_rule(self._records, load_rules()))
        except OSError as error:
            raise pytest.UsageError(
                f"--ascend-report={path} cannot be written: {error.strerror}."
            ) from None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._records:
            write_summary(terminalreporter, by_rule(self._records, load_rules()))
