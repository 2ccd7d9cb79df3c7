"""What is already known to be broken: lists of deviations, and the report of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.contract.deviations import Deviation
    from pytest_ascendcache.reports.baseline import Baseline


def read_deviations(lists: tuple[str, ...], toolchain: str) -> tuple[Deviation, ...]:
    """The entries about this toolchain in the lists of ``--ascend-deviations``.

    Raises ``pytest.UsageError`` for a list that cannot be used.
    """
    if not lists:
        return ()
    from pytest_ascendcache.combinations.factors import unknown_level
    from pytest_ascendcache.contract.deviations import DeviationFileError, load_deviations

    try:
        entries = tuple(entry for name in lists for entry in load_deviations(name))
        for entry in entries:
            if problem := unknown_level(dict(entry.cell)):
                raise DeviationFileError(f"{entry.origin}: {problem}")
    except DeviationFileError as error:
        raise pytest.UsageError(f"--ascend-deviations: {error}") from None
    return tuple(entry for entry in entries if entry.is_about(toolchain))


def read_baseline(path: Path | None) -> Baseline | None:
    """The earlier report of ``--ascend-baseline``.

    Raises ``pytest.UsageError`` for a file that is not a report.
    """
    if path is None:
        return None
    from pytest_ascendcache.reports.baseline import Baseline
    from pytest_ascendcache.reports.files import ReportFileError

    try:
        return Baseline.read(path)
    except ReportFileError as error:
        raise pytest.UsageError(f"--ascend-baseline: {error}") from None
