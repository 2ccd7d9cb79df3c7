"""A badge for shields.io's endpoint, made from the JSON report.

Source: https://shields.io/badges/endpoint-badge.
"""

from __future__ import annotations

import json

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.words import count

LABEL = "ascend cache"


def badge(report: Document) -> str:
    """The text of the badge's file."""
    message, colour = message_and_colour(report)
    fields = {"schemaVersion": 1, "label": LABEL, "message": message, "color": colour}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def message_and_colour(report: Document) -> tuple[str, str]:
    """The worst result of a report in a few words, and the badge's colour.

    The badge is green only if every applicable rule has passed and every check has a verdict.
    """
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
    return f"{passed} rules pass", "brightgreen"
