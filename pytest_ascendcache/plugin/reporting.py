"""What a run writes besides the terminal's report: files, and what GitHub and JUnit files show.

pytest writes JUnit's file, for GitLab, Jenkins and others. The rule becomes part of a test case's
name, because viewers show names but no properties. Known deviations are what pytest calls xfailed.
Warnings get an entry like theirs, because viewers hide tests that passed.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

# There is no public way to pytest's writer for a plugin in xdist's controller; the fixtures that
# pytest offers work only in the process of the test.
from _pytest.junitxml import xml_key

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.files import append_output, write_output
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.plugin.options.places import GITHUB_SUMMARY
from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.users_language import language_of
from pytest_ascendcache.reports.cause import said_of
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.records import VerdictRecord, verdict_text

_SHOWN_BY_PYTEST = ("failed", "error")


def wants_report(settings: Settings) -> bool:
    """Whether anything besides the terminal shows the report of this run."""
    files = settings.report or settings.html
    return bool(files or os.environ.get(GITHUB_SUMMARY) or _annotates())


def write_files(report: Document, settings: Settings) -> list[str]:
    """Write the files that were asked for; returns a sentence for each that cannot be written."""

    def as_json() -> str:
        from pytest_ascendcache.reports.json_report import as_json

        return as_json(report)

    def as_html() -> str:
        from pytest_ascendcache.reports.html_report import html_report

        return html_report(report)

    files: tuple[tuple[str, Path | None, Callable[[], str]], ...] = (
        ("--ascend-report", settings.report, as_json),
        ("--ascend-html", settings.html, as_html),
    )
    problems = []
    for option, path, made in files:
        try:
            if path is not None:
                write_output(path, made())
        except OSError as error:
            # The summary shows it: the verdicts must not be lost with the file.
            problems.append(f"{option}={path} cannot be written: {error.strerror}.")
    return problems


def tell_github(report: Document, language: Language) -> list[str]:
    """Append to the summary of a GitHub job; returns annotations to print, and a warning if the
    summary cannot be written, which fails no run."""
    from pytest_ascendcache.reports.markdown import summary, workflow_commands

    lines = workflow_commands(report, language) if _annotates() else []
    if place := os.environ.get(GITHUB_SUMMARY):
        try:
            append_output(Path(place), summary(report, language))
        except OSError as error:
            lines.append(f"WARNING: {GITHUB_SUMMARY}={place} cannot be written: {error.strerror}.")
    return lines


def _annotates() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


@contextmanager
def without_failed_checks(reporter: pytest.TerminalReporter) -> Iterator[None]:
    """Keep pytest from printing the suite's failures, whose causes the report prints; with
    ``--tb``, and of a user's own tests, it prints them."""
    if reporter.config.getoption("tbstyle") != "auto":
        yield
        return
    kept = {name: reporter.stats[name] for name in _SHOWN_BY_PYTEST if name in reporter.stats}
    for name, reports in kept.items():
        reporter.stats[name] = [each for each in reports if not _is_judged(each, by_user=False)]
    try:
        yield
    finally:
        reporter.stats.update(kept)


def write_own_checks(reporter: pytest.TerminalReporter, with_reasons: bool) -> None:
    """Print tracebacks of a user's undecided checks, whose category pytest does not print.

    ``with_reasons`` also prints the warnings, for a run without the report of the suite.
    """
    undecided, *others = (
        [each for each in reporter.stats.get(name, ()) if _is_judged(each, by_user=True)]
        for name in ("undecided", "warned", "known deviation", "skipped")
    )
    if undecided and reporter.config.getoption("tbstyle") != "no":
        reporter.write_sep("=", "UNDECIDED", red=True)
        for report in undecided:
            reporter.write_sep("_", report.head_line, red=True)
            report.toterminal(reporter.config.get_terminal_writer())
    language = language_of(reporter.config)
    for report in chain(undecided, *others) if with_reasons else ():
        record = VerdictRecord.from_dict(report.ascend_record)
        verdict = verdict_text(record.verdict, language).upper()
        message = (record.deviation or {}).get("reason", record.message)
        reason = translated(message.partition("\n")[0], language)
        reporter.line(f"{verdict} {record.rule} {report.nodeid}: {reason}")


def _is_judged(report: object, by_user: bool) -> bool:
    """Whether this is the report of a check that the user has written, or of one of the suite."""
    is_of_suite = getattr(report, "nodeid", "").startswith(SUITE_NODES)
    return hasattr(report, "ascend_record") and is_of_suite is not by_user


def tell_junit(config: pytest.Config, report: pytest.TestReport, record: Mapping[str, Any]) -> None:
    """Add rule, harm, reason and repeat command to the test case, before pytest writes it."""
    writer = config.stash.get(xml_key, None)
    if writer is None:
        return
    case = writer.node_reporter(report)
    name = report.nodeid.rpartition("::")[2]
    case.add_attribute("name", f"{record['rule']}: {name}")
    verdict = record["verdict"]
    if report.failed:
        if config.getoption("tbstyle") == "auto":
            report.longrepr = _in_full(record)
    elif hasattr(report, "wasxfail"):
        report.wasxfail = _in_full(record)  # of which pytest makes the entry
    elif verdict == "warn" and report.when == "call":
        message = _in_full(record)
        shown = ElementTree.Element("skipped", type=f"ascend.{verdict.replace(' ', '-')}")
        shown.set("message", message.partition("\n")[0])
        shown.text = message
        case.append(shown)
        # pytest counts this entry, and will count the report as passed in addition.
        writer.stats["passed"] -= 1


def _in_full(record: Mapping[str, Any]) -> str:
    """Rule, verdict, harm and reason in one line; then details and the repeat command."""
    head = [record["rule"], record["verdict"]]
    if harm := record.get("harm"):
        head.append(text(f"harm_{harm}", Language.ENGLISH))
    lines = [f"{', '.join(head)}: {said_of(record)}"]
    if record.get("deviation"):
        lines.append(record["deviation"]["reason"])
    return "\n".join([*lines, record["message"], f"repeat: {record['repeat']}"])
