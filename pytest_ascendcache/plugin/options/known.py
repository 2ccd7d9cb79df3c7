"""What a run judges by: editions of the documents, and what is already known to be broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition
    from pytest_ascendcache.contract.deviations import Deviation
    from pytest_ascendcache.reports.baseline import Baseline


def read_editions(names: Sequence[str], compares: bool) -> tuple[Edition, ...]:
    """The named editions: one for each product, or two of one where the run ``compares``. Raises
    ``pytest.UsageError`` for an unknown one, and for too many."""
    if not names:
        return ()  # runs that do not use the plugin must not pay for importing the contract
    from pytest_ascendcache.contract import NoEditionError
    from pytest_ascendcache.contract.editions import editions, named
    from pytest_ascendcache.words import instead

    chosen: list[Edition] = []
    for name in names:
        try:
            chosen.append(named(name))
        except NoEditionError:
            known = [each.name for each in editions()]
            raise pytest.UsageError(
                f"--ascend-edition={name}: no such edition; {instead(name, known)}"
            ) from None
    products = [each.product for each in chosen]
    if compares and len(chosen) == 2:
        if len(set(products)) == 2:
            raise pytest.UsageError(
                f"--ascend-edition={chosen[0].name} and --ascend-edition={chosen[1].name} are of "
                "two products; name two editions of one."
            )
        return tuple(chosen)
    for each in chosen:
        if products.count(each.product) > 1:
            raise pytest.UsageError(
                f"--ascend-edition={each.name}: a run judges by one edition of a product; name "
                "one, or compare two with --ascend-rules."
            )
    return tuple(chosen)


def read_deviations(lists: tuple[str, ...], toolchain: str) -> tuple[Deviation, ...]:
    """The entries about this toolchain in the lists of ``--ascend-deviations``. Raises
    ``pytest.UsageError`` for a list that cannot be used."""
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
    """The report of ``--ascend-baseline``. Raises ``pytest.UsageError`` for another file."""
    if path is None:
        return None
    from pytest_ascendcache.reports.baseline import Baseline
    from pytest_ascendcache.reports.files import ReportFileError

    try:
        return Baseline.read(path)
    except ReportFileError as error:
        raise pytest.UsageError(f"--ascend-baseline: {error}") from None
