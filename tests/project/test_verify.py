"""``ci/verify``, the first command of the README: it says at once what it does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PYTHON = """\
#!/bin/sh
case "$*" in
  *sys.version_info*) exit 0 ;;
  --version) echo "Python 3.11.0" ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) echo "Collecting numpy>=1.24 (from x)"; echo "  Using cached numpy" ;;
  *) echo "started: $*" ;;
esac
"""
"""A stand-in for Python: it makes an environment and installs without a network."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "ci").mkdir()
    for name in ("setup", "scratch", "verify"):
        shutil.copy(ROOT / "ci" / name, tmp_path / "ci")
    (tmp_path / "pyproject.toml").touch()
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def _verify(checkout: Path, *arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHON": str(checkout / "python")}
    done = subprocess.run(
        [checkout / "ci/verify", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_step_is_told_before_it_begins(checkout: Path) -> None:
    told = _verify(checkout)
    assert told[0].startswith("ci/verify: judging a toolchain, the embedded reference unless you")
    assert "the core of the suite, about a minute" in told[0]
    assert told[1:4] == [
        "ci/setup: making .venv with Python 3.11.0",
        "ci/setup: installing the project into .venv (once, about a minute, 300 MB):",
        "ci/setup:   numpy>=1.24",
    ]
    assert told[4:] == ["started: -m pytest --ascend-cache --pyargs pytest_ascendcache.conformance"]
    assert len(_verify(checkout)) == 2  # nothing is installed twice


def test_it_says_how_long_a_part_takes(checkout: Path) -> None:
    assert _verify(checkout, "--ascend-smoke")[0].endswith("the smoke selection, about 15 s")
    assert _verify(checkout, "--ascend-rule=x")[0].endswith("the rules that you name")
