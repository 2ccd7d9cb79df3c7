"""Which rank of a gang an item is here, and where the gang keeps its files."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Place:
    """Which rank of the item this process is, and a directory for the gang if there is one."""

    rank: int
    size: int
    directory: Path | None = None


PLACE: pytest.StashKey[Place] = pytest.StashKey()


def gang_directory(item: pytest.Item, factory: pytest.TempPathFactory) -> Path:
    """A new directory for a gang. Numbered ones cost a look at all the others each time."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", item.name)[:40].strip("-")
    return Path(tempfile.mkdtemp(prefix=f"gang-{name}-", dir=factory.getbasetemp()))
