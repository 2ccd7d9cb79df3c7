"""Options that say which reports a run writes, and which earlier one it is held against."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.reports.baseline import Baseline


_WRITTEN = ("--ascend-report", "--ascend-html", "--ascend-badge")


@dataclass(frozen=True)
class ReportSettings:
    """Files to be written, and the earlier report of ``--ascend-baseline``."""

    json: Path | None = None
    html: Path | None = None
    badge: Path | None = None
    baseline: Baseline | None = None


def add_report_options(group: pytest.OptionGroup) -> None:
    """Register the options of reports."""
    group.addoption(
        "--ascend-report", metavar="FILE.json", default=None, help="write every verdict as JSON"
    )
    group.addoption(
        "--ascend-html",
        metavar="FILE.html",
        default=None,
        help="write a page with every rule, combination and failure; it needs no network",
    )
    group.addoption(
        "--ascend-badge",
        metavar="FILE.json",
        default=None,
        help="write a badge of the outcome, as shields.io's endpoint reads it",
    )
    group.addoption(
        "--ascend-baseline",
        metavar="FILE.json",
        default=None,
        help="an earlier --ascend-report: what was broken there too does not fail the run",
    )


_ALL = ("--ascend-report", "--ascend-html", "--ascend-baseline")


def check_reports(config: pytest.Config, judged: bool) -> None:
    """Refuse reports of a run in which nothing is ``judged``: there would be none.

    Raises:
        pytest.UsageError: naming the option.
    """
    given = [f"{each}={config.getoption(each)}" for each in _ALL if config.getoption(each)]
    if given and not judged:
        raise pytest.UsageError(
            f"{given[0]}: nothing is judged that could be reported; add --ascend-cache, "
            "--ascend-audit=DIR or --ascend-release=FILE.toml."
        )


def read_reports(config: pytest.Config) -> ReportSettings:
    """Check the options of reports.

    Raises:
        pytest.UsageError: for a file that cannot be written, or a baseline that cannot be read.
    """
    names = {each: config.getoption(each) for each in _WRITTEN}
    files = {option: check_file(option, name) for option, name in names.items()}
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None and seen.setdefault(path, option) != option:
            raise pytest.UsageError(f"{seen[path]} and {option} are both {path}; name two files.")
    return ReportSettings(
        json=files["--ascend-report"],
        html=files["--ascend-html"],
        badge=files["--ascend-badge"],
        baseline=_baseline(config.getoption("--ascend-baseline")),
    )


def _baseline(name: str | None) -> Baseline | None:
    if name is None:
        return None
    from pytest_ascendcache.reports.baseline import Baseline
    from pytest_ascendcache.reports.files import ReportFileError

    try:
        return Baseline.read(Path(name).absolute())
    except ReportFileError as error:
        raise pytest.UsageError(f"--ascend-baseline: {error}") from None


def check_file(option: str, name: str | None) -> Path | None:
    """A file that is to be written later can be refused now; its absolute path otherwise.

    Raises:
        pytest.UsageError: naming the option and the file.
    """
    if name is None:
        return None
    path = Path(name).absolute()
    if path.is_dir():
        raise pytest.UsageError(f"{option}={name} is a directory; name a file in it.")
    if not path.parent.is_dir():
        raise pytest.UsageError(
            f"{option}={name}: the directory {path.parent} does not exist; create it or name "
            "another."
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise pytest.UsageError(
            f"{option}={name}: the directory {path.parent} cannot be written; name another."
        )
    return path
