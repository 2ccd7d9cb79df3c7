"""Keeps the evidence of a red run where pytest does not remove it.

pytest keeps the temporary directories of three runs. What shows a broken promise (the report, the
sandbox of the first broken check of each cause, histories of stress runs) is copied to a directory
of ours, which keeps the last few runs and is bounded in size. Nothing is written where all is well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pytest_ascendcache.files import copy_tree, write_output
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.json_report import as_json

RUNS = 10
"""Red runs whose evidence is kept."""

MOST_BYTES = 64 << 20
"""Bytes of sandboxes that are kept of one run."""

_CAUSES = 8
"""Causes of a run whose first sandbox is kept."""


def place() -> Path:
    """The directory of all kept evidence."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "pytest-ascendcache"


def keep_evidence(report: Document, histories: Sequence[Path]) -> list[str]:
    """Copy the evidence of a red run; returns the lines that name it, or say that it cannot be
    written."""
    base = place()
    directory = base / f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    try:
        directory.mkdir(parents=True)
        write_output(directory / "report.json", as_json(report))
        lines = [f"evidence: {directory}"]
        _copy_sandboxes(report, directory)
        for each in histories:
            shutil.copy(each, directory)
            if ".shortest" in each.name:
                lines.append(f"repeat it: pytest --ascend-stress={directory / each.name}")
        ours = sorted(each for each in base.iterdir() if (each / "report.json").is_file())
        for each in ours[:-RUNS]:
            shutil.rmtree(each, ignore_errors=True)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or "not all of it can be copied"
        return [f"WARNING: the evidence cannot be kept in {directory}: {reason}."]
    return lines


def _copy_sandboxes(report: Document, directory: Path) -> None:
    left = MOST_BYTES
    repeats = []
    for number, cause in enumerate(report["causes"][:_CAUSES], 1):
        if cause.get("script"):
            write_output(directory / f"cause-{number}.sh", cause["script"])
    for number, check in enumerate(_first_broken(report), 1):
        repeats.append(f"{check['check']}\n{check['repeat']}\n")
        sandbox = Path(check["evidence"]["sandbox"] or "/nowhere")
        if not sandbox.is_dir() or (size := _size(sandbox)) > left:
            continue
        left -= size
        target = directory / f"sandbox-{number}"
        copy_tree(sandbox, target)
    write_output(directory / "repeat.txt", "\n".join(repeats))


def _first_broken(report: Document) -> Iterator[dict]:  # type: ignore[type-arg]  # JSON
    """The first check of each cause, then those that could not be decided."""
    checks = {each["check"]: each for each in report["checks"]}
    names = [name for cause in report["causes"] for name in cause["checks"][:1]]
    names += [name for name, each in checks.items() if each["verdict"] == "undecided"]
    for name in list(dict.fromkeys(names))[:_CAUSES]:
        if name in checks:
            yield checks[name]


def _size(directory: Path) -> int:
    files = (each for each in directory.rglob("*") if not each.is_symlink())
    return sum(each.stat().st_size for each in files if each.is_file())
