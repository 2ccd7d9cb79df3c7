"""The factor by which work is slower than on free processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.processes import strain as module
from pytest_ascendcache.processes.strain import Computed, computed


@pytest.mark.parametrize(
    ("found", "strain"),
    [
        (Computed(2.0, 0.0), 1.0),
        (Computed(2.0, 3.0), 2.5),
        (Computed(2.0, -1.0), 1.0),  # an overflowed counter
        (Computed(0.001, 3.0), 1.0),  # too short to tell
        (Computed(), 1.0),
    ],
)
def test_what_was_waited_for_is_told_beside_what_was_used(found: Computed, strain: float) -> None:
    assert found.strain == strain


@pytest.mark.parametrize("text", [None, "", "many few 1\n", "1000000000\n"])
def test_a_system_that_counts_nothing_tells_nothing(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = tmp_path / "schedstat"
    if text is not None:
        counts.write_text(text)
    monkeypatch.setattr(module, "_COUNTS", counts)
    assert computed() == Computed()


def test_nanoseconds_are_read_as_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tmp_path / "schedstat"
    counts.write_text("2500000000 500000000 42\n")
    monkeypatch.setattr(module, "_COUNTS", counts)
    assert computed() == Computed(2.5, 0.5)
