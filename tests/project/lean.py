"""An environment made from our wheel, as ``pip install`` makes it, but without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "pytest-ascendcache"


def build_wheel(place: Path) -> Path:
    """Build the wheel in ``place`` as its build backend does, from a copy of the sources."""
    source = place / "source"
    shutil.copytree(
        ROOT / "pytest_ascendcache",
        source / "pytest_ascendcache",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "--wheel-dir", place, source], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def unpacked(wheel: Path, site: Path) -> Path:
    """Unpack the wheel, which installs it except for its commands."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


class Lean:
    """The wheel with exactly the distributions that it requires, and their commands.

    ``extras`` are those of the wheel that a page installs. Files of dependencies are links.
    """

    def __init__(self, wheel: Path, place: Path, *extras: str) -> None:
        self._site = unpacked(wheel, place / "site")
        self._bin = place / "bin"
        self._bin.mkdir()
        ours = next(self._site.glob("*.dist-info"))
        self._commands(Distribution.at(ours))
        for each in _required(Distribution.at(ours), {*extras}):
            self._link(each)
            self._commands(each)
        for name in ("python", "python3"):
            self._script(name, f'exec {sys.executable} -S "$@"')

    def environment(self, home: Path) -> dict[str, str]:
        """The variables of a user's shell that has activated the environment."""
        kept = {name: os.environ[name] for name in ("TMPDIR", "LANG") if name in os.environ}
        path = os.pathsep.join((str(self._bin), "/usr/local/bin", "/usr/bin", "/bin"))
        return {**kept, "PATH": path, "HOME": str(home), "PYTHONPATH": str(self._site)}

    def _link(self, dependency: Distribution) -> None:
        """Link what a dependency has in site-packages."""
        base = Path(str(dependency.locate_file("")))
        tops = {each.parts[0] for each in dependency.files or () if each.parts[0] != ".."}
        for top in sorted(tops - {"__pycache__"}):
            if not (self._site / top).exists() and (base / top).exists():
                (self._site / top).symlink_to(base / top)

    def _commands(self, of: Distribution) -> None:
        for each in of.entry_points:
            if each.group == "console_scripts":
                call = f"import sys; sys.argv[0] = {each.name!r}; from {each.module} import "
                call += f"{each.attr} as main; sys.exit(main())"
                self._script(each.name, f'exec {sys.executable} -S -c "{call}" "$@"')

    def _script(self, name: str, line: str) -> None:
        script = self._bin / name
        script.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        script.chmod(0o755)


def _required(of: Distribution, extras: set[str]) -> list[Distribution]:
    """Everything that a distribution requires with these extras, directly or not."""
    from packaging.requirements import Requirement

    found: dict[str, Distribution] = {}
    open_: list[tuple[Distribution, set[str]]] = [(of, extras)]
    while open_:
        one, wanted = open_.pop()
        for text in one.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": each}) for each in ("", *wanted)):
                continue
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if name not in found and name != NAME:
                found[name] = distribution(name)
                open_.append((found[name], requirement.extras))
    return list(found.values())
