"""Finding a MindSpore wheel: its Python, its version, and what else is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.toolchains.mindspore.forkserver import ENTRY, ENTRY_MODULES

JUDGED = ("2.10.0", "2.9.0", "2.8.0")
"""Releases that have been judged; the list of known deviations is about the first."""

_SETUP = "ci/verify-mindspore sets up everything"
_FILES = [name.partition(".")[2].replace(".", "/") + ".py" for name in ENTRY_MODULES]
_PROBE = f"""
FILES, ENTRY = {_FILES!r}, {ENTRY!r}
"""
_PROBE += """import importlib.metadata as metadata, importlib.util, json, pathlib
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
found = {name: version(name) for name in ("mindspore", "decorator")}
places = getattr(importlib.util.find_spec("mindspore"), "submodule_search_locations", None) or ()
files = [pathlib.Path(place, name) for place in places for name in FILES]
found["forks"] = str(any(ENTRY in path.read_text() for path in files if path.is_file()))
print(json.dumps(found))
"""
_PATIENCE = 60.0


@dataclass(frozen=True)
class Wheel:
    """The Python that has the wheel. ``missing`` says in one sentence why it cannot be used, with
    the command that helps; empty if it can."""

    python: Path
    version: str
    missing: str = ""
    forks: bool = False
    """Whether a script forked from an imported MindSpore can become its entry script."""

    @property
    def notice(self) -> str:
        """What readers of verdicts on this release should know; often empty."""
        if self.missing or self.version in JUDGED:
            return ""
        return f"MindSpore {self.version} was not judged before; judged like {JUDGED[0]}"


def find_wheel(python: str | None, needs_compiler: bool) -> Wheel:
    """Look at one Python: by default that of ``.venv-mindspore`` below the working directory, or
    else this one. With ``needs_compiler`` the kernels are linked with ``g++``."""
    default = Path(".venv-mindspore/bin/python").absolute()
    path = Path(python or (default if default.exists() else sys.executable)).absolute()
    versions = _versions(path)
    if versions is None:
        return Wheel(
            path,
            "not found",
            f"there is no Python at {path}; {_SETUP}, or: python3.11 -m venv {path.parent.parent} "
            f"&& {path} -m pip install mindspore=={JUDGED[0]} decorator",
        )
    version = versions["mindspore"]
    if version is None:
        return _lacking(path, "not installed", f"mindspore=={JUDGED[0]} decorator")
    if needs_compiler and versions["decorator"] is None:
        return _lacking(path, version, "decorator")
    if needs_compiler and shutil.which("g++") is None:
        return Wheel(
            path,
            version,
            "g++ is not on PATH, and links its kernels; apt-get install g++ brings it",
        )
    return Wheel(path, version, forks=versions["forks"] == "True")


def _lacking(path: Path, version: str, package: str) -> Wheel:
    name = package.partition("=")[0]
    command = f"{path} -m pip install {package}"
    return Wheel(path, version, f"{path} has no {name}; {_SETUP}, or: {command}")


def _versions(python: Path) -> dict[str, str | None] | None:
    try:
        ended = subprocess.run(
            [str(python), "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
        versions: dict[str, str | None] = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return versions
