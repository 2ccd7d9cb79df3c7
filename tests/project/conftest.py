"""Fixtures that run the scripts of ``ci/`` with a stand-in for Python, and import its modules."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

CiModule = Callable[[str], ModuleType]
CI = Path(__file__).parents[2] / "ci"

PYTHON = """\
#!/bin/sh
case "$*" in
  *sys.version_info*) exit 0 ;;
  --version) echo "Python 3.11.0" ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip install"*mindspore==9.9*) exit 1 ;;
  *"pip install"*) echo "Collecting numpy>=1.24 (from x)"; echo "  Using cached numpy" ;;
  *) echo "started: $*" ;;
esac
"""
"""A stand-in for Python, which makes environments and installs packages without a network."""


class Checkout:
    """A directory with scripts of ``ci/`` and a stand-in for Python."""

    def __init__(self, root: Path, *scripts: str) -> None:
        self.root = root
        self.python = root / "python"
        self.program("python", PYTHON)
        (root / "pyproject.toml").touch()
        (root / "ci").mkdir()
        for name in ("setup", *scripts):
            shutil.copy(CI / name, root / "ci")

    def program(self, path: str, text: str) -> None:
        """Write an executable script."""
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)

    def run(self, script: str, *arguments: str, status: int = 0) -> str:
        """Run a script, check its exit status, and return what it prints."""
        python = str(self.python)
        done = subprocess.run(
            [self.root / "ci" / script, *arguments],
            env={**os.environ, "PYTHON": python, "MINDSPORE_PYTHON": python},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout.replace(str(self.root), "")


@pytest.fixture
def ci_module(monkeypatch: pytest.MonkeyPatch) -> CiModule:
    """Import a module of ``ci/``, such as ``cann/mutants``."""

    def imported(path: str) -> ModuleType:
        monkeypatch.syspath_prepend((CI / path).parent)
        return importlib.import_module(Path(path).name)

    return imported
