"""Report files: written whole or not at all, and read again with one sentence if that fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

SCHEMA = 1
"""Version of the JSON report, which every other report is made from."""

Document = dict[str, Any]
"""A JSON report as data; see ``json_report.document``."""


class ReportFileError(ValueError):
    """A file that is no report this version can read."""


def write_whole(path: Path, text: str) -> None:
    """Write a file whose name never stands for a half of it.

    Names of files may be bytes that are no text; they are written as JSON would escape them.

    Raises:
        OSError: where it cannot be written; an older file of the name is then as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8", errors="backslashreplace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_report(path: Path) -> Document:
    """A JSON report that ``--ascend-report`` wrote.

    Raises:
        ReportFileError: for anything else, in one sentence that names the file.
    """
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportFileError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ReportFileError(
            f"{path} is no JSON; name a file that --ascend-report wrote."
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        found = "no report" if schema is None else f"a report of schema {schema!r}"
        raise ReportFileError(
            f"{path} is {found}, and this version reads schema {SCHEMA}; write it again with "
            "--ascend-report."
        )
    if missing := _missing(document):
        raise ReportFileError(f"{path} has no usable {missing}; write it again with a whole run.")
    return document


def _missing(document: Document) -> str:
    """What a report lacks of what readers rest on; empty if nothing."""
    if not _has(document.get("toolchain"), "name", "version"):
        return "'toolchain'"
    wanted = {
        "rules": ("id", "level", "title_en", "title_zh", "source", "verdict"),
        "checks": ("rule", "check", "verdict", "message", "evidence"),
    }
    for name, fields in wanted.items():
        parts = document.get(name)
        if not isinstance(parts, list) or not all(_has(each, *fields) for each in parts):
            return f"'{name}'"
    return ""


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and all(name in value for name in names)
