"""Runs of pytest that are refused: one sentence, no file left, and no check passed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_OTHERS = re.compile(r"stdout|stderr|runpytest-(\d+|current)|.*__pycache__|a b$")
"""Files that a run of pytest in a test leaves, and a base directory that it is given."""


def left(directory: Path) -> set[str]:
    """The files in a directory, except those of pytest itself."""
    names = (str(each.relative_to(directory)) for each in directory.rglob("*"))
    return {name for name in names if not _OTHERS.match(name)}


def refused(pytester: pytest.Pytester, *arguments: str) -> str:
    """Run pytest. Returns the one sentence of its usage error."""
    before = left(pytester.path)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=60)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert left(pytester.path) == before
    text = result.stderr.str() + result.stdout.str()
    assert not [each for each in ("Traceback", "INTERNALERROR", "passed") if each in text]
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: ")
    assert line.endswith((".", "?", ")"))
    assert len(line) < 600
    return line.removeprefix("ERROR: ")
