"""Copies of a directory under names like its own, with marked kernels: no run may use, change or
remove them. A prefix, a pattern, a comparison without case, or a number read out of a name takes
one directory for another."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.contract.facts import Place
from pytest_ascendcache.observation import Evidence


def names_like(name: str) -> list[str]:
    """Names that are easily taken for this one."""
    with_zero = re.sub(r"(\d+)(\D*)$", r"0\1\2", name)
    names = [f"{name}{more}" for more in ("0", "1", "10", "2C", "_1", "-1", ".bak", "~", " ")]
    names += [name[:-1], name.swapcase(), name.lower(), f".{name}", f"a{name}", with_zero]
    names += [name.replace("1", "l"), name.replace("_", "-"), name.replace("_", "")]
    return [each for each in dict.fromkeys(names) if each not in ("", ".", "..", name)]


def package_names_like(name: str) -> list[str]:
    """Those that a package can have."""
    return [each for each in names_like(name) if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", each)]


class NamedAlike:
    """Copies of a directory beside it. Any name that is taken already is left out."""

    def __init__(self, original: Path) -> None:
        places = [original.with_name(each) for each in names_like(original.name)]
        self._before: dict[Path, Snapshot] = {}
        for place in places:
            if not place.exists():  # a file system may not tell upper case from lower
                shutil.copytree(original, place)
                self._before[place] = Snapshot.take(place)

    def are_untouched(self, evidence: Evidence, where: str) -> None:
        """Break the check if a copy is not what it was, byte for byte."""
        for place, before in self._before.items():
            for path, change in before.disturbed(Snapshot.take(place)).items():
                message = f"{where}: {place.name}/{path} is {change.value}"
                raise AssertionError(evidence.found(Place.TOUCHED, message))
