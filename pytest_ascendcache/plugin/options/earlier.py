"""Whether a file that a run would replace is an earlier output of the same kind.

Anything else may be the user's own work: a typing error must not cost it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_HEAD = 4096
"""Bytes that are enough to recognise an output."""

PAGE_MARK = b'<meta name="generator" content="pytest-ascendcache">'
"""In the head of every page that this package writes."""


def _json(*keys: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip().startswith(b"{") and all(each in head for each in keys)


def _lines(*keys: bytes) -> Callable[[bytes], bool]:
    """The first line is a JSON document with these keys."""
    return lambda head: _json(*keys)(head.partition(b"\n")[0])


_EARLIER: dict[str, Callable[[bytes], bool]] = {
    "--ascend-report": _json(b'"schema":', b'"plugin":'),
    "--ascend-html": lambda head: PAGE_MARK in head,
    "-o ascend_stress_history": _lines(b'"line":', b'"header"'),
    "--ascend-manifest-update": _json(b'"schema":'),
}


def check_earlier(shown: str, path: Path) -> None:
    """Refuse to replace a file that is no earlier output of the option ``shown``.

    An empty file, as ``mktemp`` makes it, may be replaced. Raises ``pytest.UsageError``.
    """
    is_ours = next((each for name, each in _EARLIER.items() if shown.startswith(name)), None)
    if is_ours is None or not path.is_file():
        return
    try:
        head = first_bytes(path)
    except OSError:
        head = b"?"
    if head and not is_ours(head):
        raise pytest.UsageError(
            f"{shown}: the file exists and no earlier run has written it; name another file, or "
            "remove it."
        )


def first_bytes(path: Path) -> bytes:
    """The beginning of a regular file. Raises ``OSError`` if it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_HEAD)
