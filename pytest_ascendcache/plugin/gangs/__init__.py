"""Gangs: tests that several ranks run at the same time.

Without xdist the ranks are processes of one item (``run``), with xdist tests on distinct workers.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class PlaceInGang:
    """Rank and size; ``directory`` is the gang's, where the ranks are processes of one item."""

    rank: int
    size: int
    directory: Path | None = None


PLACE: pytest.StashKey[PlaceInGang] = pytest.StashKey()


def gang_directory(item: pytest.Item, factory: pytest.TempPathFactory) -> Path:
    """A new directory for a gang. ``mktemp`` would list all numbered directories each time."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", item.name)[:40].strip("-")
    return Path(tempfile.mkdtemp(prefix=f"gang-{name}-", dir=factory.getbasetemp()))
