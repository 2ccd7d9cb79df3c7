"""Gathers verdict records during the run and hands them to the writers at its end."""

from __future__ import annotations

import platform
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.contract import Verdict, rules_for
from pytest_ascendcache.contract.deviations import (
    STALE,
    Deviation,
    Judged,
    Occurrence,
    occurrences,
)
from pytest_ascendcache.language import text, translated
from pytest_ascendcache.plugin.collection import SuiteModule, has_every_file
from pytest_ascendcache.plugin.estimate import estimate
from pytest_ascendcache.plugin.gangs.items import CONTROLLER
from pytest_ascendcache.plugin.judged import judged
from pytest_ascendcache.plugin.junit import tell_junit
from pytest_ascendcache.plugin.pace import Pace
from pytest_ascendcache.plugin.reporting import tell_github, wants_report, write_files
from pytest_ascendcache.plugin.selection import selecting_of
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.summary import in_its_language, language_of, told_once
from pytest_ascendcache.processes.strain import computed
from pytest_ascendcache.reports.baseline import News
from pytest_ascendcache.reports.causes import causes
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.gangs import RankRecord, WorkerRank, whole_gang
from pytest_ascendcache.reports.json_report import document
from pytest_ascendcache.reports.records import RuleResult, VerdictRecord, by_rule, tried_cells
from pytest_ascendcache.reports.release_answer import JudgedRelease
from pytest_ascendcache.reports.terminal import TerminalReport, write_news, write_stale
from pytest_ascendcache.toolchains import Toolchain, ToolchainError
from pytest_ascendcache.words import count

_DESELECTED = "ascendcache_deselected"


class Collector:
    """The part of the plugin that is there only with ``--ascend-cache``."""

    def __init__(self, config: pytest.Config, toolchain: Toolchain | None) -> None:
        self._config = config
        self._toolchain = toolchain
        self._alone: list[VerdictRecord] = []
        self._gangs: dict[str, list[WorkerRank]] = {}
        self._expected: set[str] = set()
        self._deselected = 0
        self._announced = False
        self._told: list[str] = []
        # No cached property: pytest may read all attributes of a plugin when it is registered.
        self._occurrences: list[tuple[Deviation, Occurrence]] = []
        self._started = datetime.now().astimezone()
        self._report: Document | None = None
        self._empty = ""
        self._is_worker = hasattr(config, "workerinput")
        self._pace = Pace()
        self._strain = computed().strain  # before workers strain the machine as well

    def header(self) -> list[str]:
        """Lines at the top of a run: what is judged, and where."""
        host, judged = self.host(), " ".join(self._judged().values())
        lines = [f"ascendcache: {judged}, on {host['machine']}, {host['file_system']}"]
        if self._toolchain is not None and (details := self._toolchain.details):
            shown = ", ".join(f"{name} {value}" for name, value in details.items())
            lines.append(f"ascendcache: {shown}")
        judged_by = ascend_session_of(self._config).judged_by
        lines.append(f"ascendcache: by the documents of {judged_by.told}")
        lines += [f"ascendcache: {each}" for each in judged_by.notices]
        if selecting := selecting_of(self._config):
            lines.append(f"ascendcache: {selecting.header}")
        audited = settings_of(self._config).audit.directories
        return lines + [f"ascendcache: audit of {each}" for each in audited]

    def _judged(self) -> dict[str, str]:
        """Name and version of the toolchain, where there is one."""
        if self._toolchain is None:
            return {"name": "no toolchain", "version": "is judged"}
        return {"name": self._toolchain.name, "version": self._toolchain.version}

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._pace.note(report)
        record = getattr(report, "ascend_record", None)
        if record is None:
            return
        if not self._is_worker:
            tell_junit(self._config, report, record)
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

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """End at once: pytest reads the source of every line on the way to where it was
        interrupted, which takes seconds, and shows the last one."""
        if not self._config.getoption("fulltrace", False):
            excinfo.traceback = excinfo.traceback[-1:]

    def adopt(self, records: Sequence[VerdictRecord]) -> None:
        """Take over what an earlier run decided."""
        self._expect(record.check for record in records)
        self._alone += records

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        checks = [item.nodeid for item in session.items if item.get_closest_marker("ascend_rule")]
        self._expect(checks)
        if not self._is_worker:
            self._announce(checks, 1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        checks = [each for each in ids if each.startswith(SUITE_NODES)]
        self._expect(checks)
        self._announce(checks, len(self._config.getoption("tx", None) or "1"))

    def _announce(self, checks: Sequence[str], workers: int) -> None:
        """Say once, before it begins, how long the run will take."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if self._announced or self._config.option.collectonly or reporter is None or not checks:
            return
        self._announced = True
        line = ""
        if self._toolchain is not None:  # else nothing is started that takes time
            strain = self._strain if workers > 1 else computed().strain
            line = estimate(ascend_session_of(self._config), checks, workers, strain)
        self._pace.begin(workers)
        if line:
            reporter.write_line(in_its_language(self._config, f"ascendcache: {line}"))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        # A user's own tests are no part of the suite.
        # What its core does without is no part that an option left out.
        selecting = selecting_of(self._config)
        without = selecting.does_without if selecting else frozenset()
        self._deselected += sum(
            each.getparent(SuiteModule) is not None and each.nodeid not in without for each in items
        )
        if self._is_worker:
            # The controller collects nothing itself, and has to know that the run is not whole.
            # xdist gives the attribute to the configuration of its workers.
            self._config.workeroutput[_DESELECTED] = self._deselected  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._deselected += getattr(node, "workeroutput", {}).get(_DESELECTED, 0)

    def _expect(self, checks: Iterable[str]) -> None:
        self._expected.update(checks)

    @property
    def _missing(self) -> int:
        """Checks that were selected and gave no verdict: the run was cut short."""
        gangs = self._config.pluginmanager.getplugin(CONTROLLER)
        expected = {gangs.check_of(each) for each in self._expected} if gangs else self._expected
        return len(expected - {record.check for record in self._records})

    @property
    def _is_suite(self) -> bool:
        """Whether the run says something of all of the suite, or of its core."""
        left_out = self._missing or self._deselected or self._config.getoption("lf", False)
        return not left_out and has_every_file(self._expected, settings_of(self._config).folders)

    @property
    def _is_whole(self) -> bool:
        """Whether the run says something of every check of the suite."""
        return self._is_suite and selecting_of(self._config) is None

    def _became_of_deviations(self) -> list[tuple[Deviation, Occurrence]]:
        """What became of the listed deviations; a run of a part of the suite cannot say."""
        if not self._is_whole:
            return []
        editions = ascend_session_of(self._config).judged_by.editions
        return occurrences(
            [each for each in settings_of(self._config).deviations if each.is_by(editions)],
            (
                Judged(
                    each.rule,
                    each.check,
                    each.evidence["factors"],
                    each.verdict,
                    (each.deviation or {}).get("entry", ""),
                )
                for each in self._records
            ),
        )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        settings = settings_of(self._config)
        if self._is_worker or self._config.option.collectonly:
            return
        self._pace.end()
        self._occurrences = self._became_of_deviations()
        stale = any(occurrence in STALE for _, occurrence in self._occurrences)
        green = session.exitstatus == pytest.ExitCode.OK
        self._empty = self._nothing_judged() if green else ""
        if green and (self._empty or (stale and settings.strict)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._report = self._document(int(session.exitstatus))
        if wants_report(settings.reports):
            problems = write_files(self._report, settings.reports)
            if problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            language = language_of(self._config)
            self._told = [
                *(f"ERROR: {each}" for each in problems),
                *tell_github(self._report, language),
            ]

    def _document(self, exit_status: int) -> Document:
        return document(self._description(exit_status), self._results)

    def _nothing_judged(self) -> str:
        """Why a run that failed nothing has not judged anything either; empty where it has."""
        records = self._records
        if not records and not self._config.getoption("lf", False):
            return "no check of the suite was run"
        if records and all(each.verdict is Verdict.NOT_APPLICABLE for each in records):
            return f"none of {count(len(records), 'check')} is applicable"
        starts = sum(each.evidence["starts"] for each in records)
        if self._is_suite and self._toolchain is not None and not starts:
            return "the toolchain was not run once"
        return ""

    @property
    def _results(self) -> list[RuleResult]:
        editions = ascend_session_of(self._config).judged_by.editions
        return by_rule(self._records, rules_for(settings_of(self._config).toolchain, *editions))

    @property
    def _news(self) -> News | None:
        """What is new and fixed, where there is a baseline."""
        baseline = settings_of(self._config).reports.baseline
        return None if baseline is None else News.of(baseline, self._records)

    def _description(self, exit_status: int) -> dict[str, Any]:
        description: dict[str, Any] = {
            "plugin": version("pytest-ascendcache"),
            "toolchain": {
                **self._judged(),
                **(self._toolchain.details if self._toolchain is not None else {}),
            },
            "judged": judged(settings_of(self._config), self._toolchain),
            "editions": self._editions(),
            "edition_notices": ascend_session_of(self._config).judged_by.notices,
            "host": self.host(),
            "exit_status": exit_status,
            "started": self._started.isoformat(timespec="seconds"),
            "checks_without_verdict": self._missing,
            "deviations": [
                {**asdict(entry), "cell": dict(entry.cell), "occurrence": occurrence.value}
                for entry, occurrence in self._occurrences
            ],
        }
        if matrix := self._matrix():
            description["matrix"] = matrix
        if selecting := selecting_of(self._config):
            description.update(selecting.document())
        if self._records and "selection" not in description and not self._is_suite:
            description["is_part"] = True
        if pace := self._pace.document():
            description["pace"] = pace
        if answers := self._answers():
            description["answers"] = answers
        if news := self._news:
            description["baseline"] = news.as_dict()
        return description

    def _editions(self) -> list[str]:
        """The editions of those documents whose promises were judged."""
        judged = {result.rule.product for result in self._results}
        editions = ascend_session_of(self._config).judged_by.editions
        return [str(each) for each in editions if each.product in judged]

    def _matrix(self) -> list[str]:
        """Which combinations were tried, what they cover, and what else was generated."""
        tried = tried_cells(self._records)
        told = ascend_session_of(self._config).plan.describe(tried) if tried else []
        if self._records and (chosen := settings_of(self._config).seed):
            told.append(
                f"What is generated is that of seed {chosen}; --ascend-seed={chosen} repeats it."
            )
        return told

    def _answers(self) -> list[str]:
        """What the run says of each release, in one sentence."""
        asked, toolchain = settings_of(self._config).release, self._toolchain
        if toolchain is not None and toolchain.name == "reference":
            compiler = f"the embedded reference {toolchain.version}, which says nothing about CANN"
        else:
            compiler = "" if toolchain is None else f"{toolchain.name} {toolchain.version}"
        return [
            JudgedRelease(
                release.name, frozenset((id_, *map(str, release.caches))), compiler
            ).answer(self._records, self._missing)
            for id_, release in zip(asked.ids, asked.releases, strict=True)
        ]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        """Everything of rules comes last, and the answer last of all."""
        with told_once(terminalreporter):
            yield
        report = self._report or self._document(int(pytest.ExitCode.INTERRUPTED))
        found = causes(report["checks"], [each.rule.id for each in self._results])
        terminal = TerminalReport(
            terminalreporter,
            report,
            self._results,
            found,
            language_of(self._config),
            self._answers(),
        )
        if self._records:
            terminal.write()
            write_stale(terminal, self._occurrences)
            if news := self._news:
                write_news(terminal, news)
            if selecting := selecting_of(self._config):
                for line in selecting.lines():
                    terminalreporter.line(in_its_language(self._config, line))
            if line := self._pace.line():
                terminalreporter.line(in_its_language(self._config, line))
            terminal.write_answer()
        elif not self._config.option.collectonly:
            terminal.write_incomplete()
        if self._empty:
            language = language_of(self._config)
            told = text("t_nothing", language, reason=translated(self._empty, language))
            terminalreporter.line(told, red=True)
        for line in self._told:
            told = line if line.startswith("::") else in_its_language(self._config, line)
            terminalreporter.line(told, red=line.startswith("ERROR"))
