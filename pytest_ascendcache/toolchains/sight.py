"""Finding real toolchains on PATH and where the toolkit's environment variables point."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOOLKIT_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
"""Variables in which the toolkit's ``set_env.sh`` stores the installation directory."""


@dataclass(frozen=True)
class Sighting:
    """A program (``atc`` or ``op_compiler``), and whether PATH or which variable led to it."""

    name: str
    program: Path
    found_by: str


def in_sight(name: str, environment: Mapping[str, str]) -> tuple[Sighting, ...]:
    """The executable programs of this name, the one on PATH first, each once."""
    places = [(shutil.which(name, path=environment.get("PATH", "")), "PATH")]
    homes = ((environment.get(variable), variable) for variable in TOOLKIT_HOMES)
    places += [(shutil.which(Path(home, "bin", name)), by) for home, by in homes if home]
    found: dict[Path, Sighting] = {}
    for place, found_by in places:
        if place is not None:
            path = Path(place).absolute()
            found.setdefault(path.resolve(), Sighting(name, path, found_by))
    return tuple(found.values())
