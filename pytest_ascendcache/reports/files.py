"""Reads and validates JSON reports. Errors are one sentence for the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.rules import Level
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.files import read_text

SCHEMA = 3
"""The version of the JSON report's format."""

Document = dict[str, Any]
"""A JSON report as plain data; ``json_report.document`` describes its fields."""


class ReportFileError(ValueError):
    """A file that is not a report, or not one that this version can read."""


def read_report(path: Path) -> Document:
    """Read what ``--ascend-report`` wrote. Raises ``ReportFileError`` for any other file, in one
    sentence that names it."""
    try:
        document: Document = json.loads(read_text(path))
    except OSError as error:
        raise ReportFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ReportFileError(
            f"{path} is not JSON; name a file that --ascend-report wrote."
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        kind = "not a report" if schema is None else f"a report of schema {schema!r}"
        raise ReportFileError(
            f"{path} is {kind}, and this version reads schema {SCHEMA}; write it again with "
            "--ascend-report."
        )
    if missing := _missing(document):
        raise ReportFileError(f"{path} has no usable {missing}; write it again with a whole run.")
    return document


def _missing(document: Document) -> str:
    """The first part that a report lacks or that is malformed; empty for a valid report."""
    for name, fields in _PARTS.items():
        if not _has(document.get(name), *fields):
            return f"'{name}'"
    for name, fields in _LISTS.items():
        parts = document.get(name)
        if not isinstance(parts, list) or not all(_has(each, *fields) for each in parts):
            return f"'{name}'"
    levels = {level.value for level in Level}
    for rule in document["rules"]:
        if rule["level"] not in levels or not _has(rule["source"], "document", "section"):
            return f"rule '{rule['id']}'"
    for each in (*document["rules"], *document["checks"]):
        if each["verdict"] not in _VERDICTS:
            return f"verdict of '{each.get('check', each.get('id'))}': {each['verdict']!r}"
    if not all(isinstance(each["evidence"], dict) for each in document["checks"]):
        return "evidence"
    return ""


_PARTS = {
    "toolchain": ("name", "version"),
    "host": ("machine", "python", "file_system"),
    "totals": ("rules", "checks"),
}
_LISTS = {
    "rules": ("id", "level", "title_en", "title_zh", "statement", "source", "verdict", "readings"),
    "checks": ("rule", "check", "verdict", "message", "evidence"),
    "accuracy": ("operator", "mode", "max_ulp", "mean_ulp", "inputs"),
}
_VERDICTS = tuple(verdict.value for verdict in Verdict)


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and all(name in value for name in names)
