"""Which real toolchains are in sight: on PATH, or where the environment says the toolkit is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOOLKIT_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
"""Variables that the toolkit's ``set_env.sh`` sets to where it is installed."""


@dataclass(frozen=True)
class Sighting:
    """A program (``atc`` or ``op_compiler``) and how it was found: ``PATH``, or a variable."""

    name: str
    program: Path
    found_by: str


def in_sight(name: str, environment: Mapping[str, str]) -> tuple[Sighting, ...]:
    """The programs of this name that can be started, the one on PATH first, each once."""
    places = [(shutil.which(name, path=environment.get("PATH", "")), "PATH")]
    homes = ((environment.get(variable), variable) for variable in TOOLKIT_HOMES)
    places += [(shutil.which(Path(home, "bin", name)), by) for home, by in homes if home]
    found: dict[Path, Sighting] = {}
    for place, found_by in places:
        if place is not None:
            path = Path(place).absolute()
            found.setdefault(path.resolve(), Sighting(name, path, found_by))
    return tuple(found.values())
