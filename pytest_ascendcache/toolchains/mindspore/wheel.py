"""Finding a MindSpore wheel: which Python has it, which version, and what else is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = "2.10.0"
"""The release the driver and the list of deviations were made for."""

_SETUP = "ci/verify-mindspore sets up everything"
_PROBE = """
import importlib.metadata as metadata, json
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in ("mindspore", "decorator")}))
"""
_PATIENCE = 60.0


@dataclass(frozen=True)
class Wheel:
    """The Python that has the wheel. ``missing`` says, in a sentence with the command that
    helps, why nothing can be run with it; it is empty where everything is there."""

    python: Path
    version: str
    missing: str = ""


def find_wheel(python: str | None, needs_compiler: bool) -> Wheel:
    """Look at one Python: by default that of ``.venv-mindspore`` below the working directory, or
    else this one. ``needs_compiler``: kernels are linked with ``g++``."""
    own = Path(".venv-mindspore/bin/python").absolute()
    path = Path(python or (own if own.exists() else sys.executable)).absolute()
    versions = _versions(path)
    if versions is None:
        return Wheel(
            path,
            "not found",
            f"there is no Python at {path}; {_SETUP}, or: python3.11 -m venv {path.parent.parent} "
            f"&& {path} -m pip install mindspore=={SUPPORTED} decorator",
        )
    found = versions["mindspore"]
    if found is None:
        return _lacking(path, "not installed", f"mindspore=={SUPPORTED} decorator")
    if found != SUPPORTED:
        reason = f"MindSpore {found} is another release than {SUPPORTED}, which this judges"
        return Wheel(path, found, f"{reason}; {path} -m pip install mindspore=={SUPPORTED}")
    if needs_compiler and versions["decorator"] is None:
        return _lacking(path, found, "decorator")
    if needs_compiler and shutil.which("g++") is None:
        return Wheel(
            path, found, "g++ is not on PATH, and links its kernels; apt-get install g++ brings it"
        )
    return Wheel(path, found)


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
