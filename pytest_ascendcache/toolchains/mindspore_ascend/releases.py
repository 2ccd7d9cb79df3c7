"""Sets up releases of MindSpore for Ascend: a Python, the unpacked wheel, stand-ins for CANN.

Below one directory lie ``python39``, an environment that all releases share, and a directory for
each release with ``wheel``, ``stand-ins`` and ``python``, a command that runs scripts with them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.toolchains.mindspore_ascend.stand_ins import NATIVE, build, missing_tool
from pytest_ascendcache.words import instead


@dataclass(frozen=True)
class Size:
    """Megabytes of one release's wheel, packed and unpacked."""

    wheel: int
    unpacked: int


RELEASES = {
    "1.6.2": Size(142, 402),
    "1.5.2": Size(133, 385),
    "1.7.0": Size(110, 336),
    "1.8.1": Size(144, 443),
    "1.9.0": Size(170, 553),
    "1.10.0": Size(170, 560),
}
"""Releases whose networks run on the stand-ins, the document's first."""

VARIABLE = "MINDSPORE_PYTHON"
_DEPENDENCIES = (
    *("numpy<1.24", "protobuf<4", "pillow<10", "scipy<1.11"),
    *("asttokens<3", "packaging", "psutil", "sympy", "cffi", "decorator", "easydict", "astunparse"),
    *("wheel", "setuptools<70"),
)
_ENVIRONMENT = Size(70, 290)
_ROOM = 200
"""Megabytes that must stay free."""

_SECONDS = (5, 60)
"""Seconds that a release takes to fetch and set up, from fast to slow networks."""

_PROBE = """
import json, platform, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:2]),
    "implementation": platform.python_implementation(),
    "directory": sysconfig.get_config_var("LIBDIR"),
    "library": sysconfig.get_config_var("INSTSONAME"),
}))
"""
_ADVICE = (
    f"install one, for example with `uv python install 3.9` or pyenv, or name it with {VARIABLE}"
)


@dataclass(frozen=True)
class Python:
    """CPython 3.9 and the shared library that the wheel links to."""

    program: str
    library: Path


def find_python(environment: dict[str, str]) -> Python:
    """CPython 3.9 with its library: by ``MINDSPORE_PYTHON``, by PATH, or pyenv's. Raises
    ``ToolchainError`` with what to do."""
    named = environment.get(VARIABLE)
    pyenv = Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    others = ["python3.9", *map(str, sorted(pyenv.glob("3.9.*/bin/python")))]
    for each in [named] if named else others:
        if (found := _probe(each)) is not None:
            return found
    if named:
        raise ToolchainError(
            f"{VARIABLE}={named} is no CPython 3.9 with a shared library; name one, or unset it"
        )
    raise ToolchainError(
        f"no CPython 3.9 with a shared library, which these wheels need, is on PATH; {_ADVICE}"
    )


def _probe(program: str) -> Python | None:
    try:
        ended = subprocess.run([program, "-c", _PROBE], capture_output=True, text=True, timeout=60)
        found = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if found["version"] != [3, 9] or found["implementation"] != "CPython":
        return None
    library = Path(found["directory"] or "", found["library"] or "")
    return Python(program, library) if ".so" in library.name and library.exists() else None


def check_known(releases: Iterable[str]) -> None:
    """Raise ``ToolchainError`` for a release that is not in :data:`RELEASES`."""
    for each in releases:
        if each not in RELEASES:
            raise ToolchainError(
                f"the release {each} is not one that can be judged; {instead(each, RELEASES)}"
            )


class ReleaseShelf:
    """The directory below which releases are set up. ``say`` gets a line before each step."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.root = root
        self._say = say

    def command(self, release: str) -> Path:
        """The Python of a release that is set up."""
        return self.root / release / "python"

    def lacks(self, release: str) -> bool:
        """Whether a release has to be set up, or its stand-ins are older than their source."""
        return self._made(release) != _fingerprint()

    def plan(self, releases: Iterable[str]) -> str:
        """What setting up will fetch and keep, in one sentence; empty if there is nothing to do.
        Raises ``ToolchainError`` if the disk has no room for it."""
        wheels = [RELEASES[each] for each in releases if not (self.root / each / "wheel").is_dir()]
        sizes = [*wheels, *([] if self._python.exists() else [_ENVIRONMENT])]
        if not sizes:
            return ""
        fetched = sum(each.wheel for each in sizes)
        kept = sum(each.unpacked for each in sizes)
        self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free // 10**6
        if free < kept + fetched + _ROOM:
            raise ToolchainError(
                f"{self.root} has {free} MB free and {kept + fetched + _ROOM} MB are needed; free "
                "some, or judge fewer releases"
            )
        fast, slow = (each * len(sizes) for each in _SECONDS)
        return (
            f"fetching {fetched} MB and keeping {kept} MB in {self.root} (once, {fast} to {slow} "
            f"seconds; {free} MB are free)"
        )

    def set_up(self, release: str, python: Python) -> Path:
        """Set a release up; returns its Python. Raises ``ToolchainError``."""
        if missing := missing_tool():
            raise ToolchainError(missing)
        try:
            self._environment(python)
            wheel = self._wheel(release)
            if self.lacks(release):
                self._stand_ins(release, wheel, python)
        except OSError as error:
            raise ToolchainError(
                f"MindSpore {release} cannot be set up in {self.root}: {error.strerror or error}"
            ) from None
        return self.command(release)

    @property
    def _python(self) -> Path:
        return self.root / "python39" / "bin" / "python"

    def _environment(self, python: Python) -> None:
        done = self.root / "python39" / "installed"
        if done.exists():
            return
        self._say("making an environment with CPython 3.9")
        shutil.rmtree(self.root / "python39", ignore_errors=True)
        self._run(
            [python.program, "-m", "venv", str(self.root / "python39")], "makes no environment"
        )
        self._pip("install", *_DEPENDENCIES)
        done.touch()

    def _wheel(self, release: str) -> Path:
        wheel = self.root / release / "wheel"
        if wheel.is_dir():
            return wheel
        part = wheel.with_name("wheel.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        self._say(f"fetching and unpacking the wheel of MindSpore {release}")
        place = part / "fetched"
        self._pip(
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            str(place),
            f"mindspore-ascend=={release}",
        )
        (packed,) = place.glob("*.whl")
        try:
            with zipfile.ZipFile(packed) as archive:
                archive.extractall(part)
        except (zipfile.BadZipFile, EOFError):
            raise ToolchainError(
                f"the wheel of MindSpore {release} did not arrive whole; run the command again"
            ) from None
        finally:
            shutil.rmtree(place)
        part.rename(wheel)
        return wheel

    def _stand_ins(self, release: str, wheel: Path, python: Python) -> None:
        self._say(f"building the stand-ins for MindSpore {release}")
        home = self.root / release
        shutil.rmtree(home / "stand-ins", ignore_errors=True)
        build(wheel, release, python.library, home / "stand-ins")
        for name in ("impl/impl", "shelf"):
            (home / name).mkdir(parents=True, exist_ok=True)
        libraries = (home / "stand-ins", python.library.parent, wheel / "mindspore" / "lib")
        variables = {
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "PYTHONPATH": f"{NATIVE / 'python'}:{wheel}",
            "MS_DEV_CLOSE_VERSION_CHECK": "ON",
            "TBE_IMPL_PATH": str(home / "impl"),
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        text = "\n".join(["#!/bin/sh", *lines, f'exec {shlex.quote(str(self._python))} "$@"', ""])
        command = self.command(release)
        command.write_text(text, encoding="utf-8")
        command.chmod(0o755)
        (home / "made").write_text(_fingerprint())

    def _made(self, release: str) -> str:
        try:
            return (self.root / release / "made").read_text()
        except OSError:
            return ""

    def _pip(self, *arguments: str) -> None:
        pip = [str(self._python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        self._run([*pip, *arguments], f"could not {arguments[0]} {arguments[-1]} (see above)")

    def _run(self, command: list[str], failure: str) -> None:
        temporary = self.root / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        ended = subprocess.run(command, env=environment, stdout=sys.stderr.fileno())
        shutil.rmtree(temporary, ignore_errors=True)
        if ended.returncode:
            raise ToolchainError(f"{Path(command[0]).name} {failure}")


def _fingerprint() -> str:
    """Changes with everything that stand-ins are made from."""
    sources = [Path(__file__), Path(__file__).with_name("stand_ins.py"), NATIVE / "runtime.cc"]
    digest = hashlib.sha256(str(NATIVE).encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()
