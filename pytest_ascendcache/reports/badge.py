"""A badge for shields.io's endpoint, made from the JSON report. Command ``ascendcache-badge``.

Source: https://shields.io/badges/endpoint-badge.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.files import is_stream, read_text, write_output
from pytest_ascendcache.reports.answer import left_out
from pytest_ascendcache.reports.files import Document, ReportFileError, read_report
from pytest_ascendcache.words import count

LABEL = "ascend cache"


def badge(report: Document) -> str:
    """The text of the badge's file."""
    message, colour = message_and_colour(report)
    fields = {"schemaVersion": 1, "label": LABEL, "message": message, "color": colour}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def message_and_colour(report: Document) -> tuple[str, str]:
    """The worst result of a report in a few words, and the badge's colour: green only if every
    applicable rule has passed and nothing was left out."""
    counts = {verdict: report["totals"]["rules"][verdict.value] for verdict in Verdict}
    applicable = sum(counts.values()) - counts[Verdict.NOT_APPLICABLE]
    passed = counts[Verdict.PASS]
    if counts[Verdict.FAIL]:
        return f"{counts[Verdict.FAIL]} of {applicable} rules broken", "red"
    if counts[Verdict.UNDECIDED]:
        return f"{counts[Verdict.UNDECIDED]} of {applicable} rules undecided", "orange"
    if report["checks_without_verdict"]:
        return "incomplete", "orange"
    if not applicable:
        return "nothing judged", "lightgrey"
    if counts[Verdict.WARN]:
        return f"{passed} of {applicable} rules pass, {counts[Verdict.WARN]} warn", "yellow"
    if known := counts[Verdict.KNOWN_DEVIATION]:
        return (
            f"{passed} of {applicable} rules pass, {count(known, 'known deviation')}",
            "yellowgreen",
        )
    if left_out(report):
        return f"{passed} rules pass within a budget", "lightgrey"
    return f"{passed} rules pass", "brightgreen"


def main(arguments: list[str] | None = None) -> int:
    """The command. The exit status is 0, whatever the badge says, and 2 for files that cannot be
    used."""
    parser = argparse.ArgumentParser(
        prog="ascendcache-badge",
        description="Makes a badge of what a run judged, for https://shields.io/badges/endpoint-badge.",
    )
    parser.add_argument("report", type=Path, metavar="REPORT.json", help="of --ascend-report")
    parser.add_argument("badge", type=Path, metavar="BADGE.json", help="the file to write")
    given = parser.parse_args(arguments)
    place: Path = given.badge
    try:
        text = badge(read_report(given.report))
        if place.is_file() and not is_stream(place):
            old = read_text(place, errors="replace")
            if old and not ("schemaVersion" in old and LABEL in old):
                parser.error(f"{place} exists and is no badge; name another file, or remove it.")
        write_output(place, text)
    except ReportFileError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{place} cannot be written: {error.strerror}.")
    return 0
