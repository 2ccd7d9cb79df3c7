"""Hands the report of a finished run to its writers: files, and what GitHub shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pytest_ascendcache.files import append_output, write_output
from pytest_ascendcache.language import Language
from pytest_ascendcache.plugin.options.places import GITHUB_SUMMARY
from pytest_ascendcache.plugin.options.settings import ReportSettings
from pytest_ascendcache.reports.files import Document


def wants_report(settings: ReportSettings) -> bool:
    """Whether anybody reads the report of this run besides the terminal."""
    files = settings.json or settings.html or settings.badge
    return bool(files or os.environ.get(GITHUB_SUMMARY) or _annotates())


def write_files(report: Document, settings: ReportSettings) -> list[str]:
    """Write the files that were asked for; a sentence for each that cannot be written."""

    def as_json() -> str:
        from pytest_ascendcache.reports.json_report import as_json

        return as_json(report)

    def as_html() -> str:
        from pytest_ascendcache.reports.html_report import html_report

        return html_report(report)

    def as_badge() -> str:
        from pytest_ascendcache.reports.badge import badge

        return badge(report)

    problems = [
        _write("--ascend-report", settings.json, as_json),
        _write("--ascend-html", settings.html, as_html),
        _write("--ascend-badge", settings.badge, as_badge),
    ]
    return [each for each in problems if each]


def _write(option: str, path: Path | None, text: Callable[[], str]) -> str:
    if path is None:
        return ""
    try:
        write_output(path, text())
    except OSError as error:
        # Said in the summary: what was found must not be lost with the file.
        return f"{option}={path} cannot be written: {error.strerror}."
    return ""


def tell_github(report: Document, language: Language) -> list[str]:
    """Append to the summary of a job, and give the lines to print: annotations, or that the
    summary cannot be written, which fails nothing."""
    from pytest_ascendcache.reports.markdown import summary, workflow_commands

    lines = workflow_commands(report, language) if _annotates() else []
    place = os.environ.get(GITHUB_SUMMARY)
    if place:
        try:
            append_output(Path(place), summary(report, language))
        except OSError as error:
            lines.append(f"WARNING: {GITHUB_SUMMARY}={place} cannot be written: {error.strerror}.")
    return lines


def _annotates() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"
