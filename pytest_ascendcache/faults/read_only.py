"""Runs one command with a directory on a read-only file system.

The command runs in a mount namespace of its own, in which the directory is mounted read-only. The
errors are those of a real file system, and nothing outside notices. This needs root, or a machine
that lets users create namespaces, and the programs ``unshare`` and ``mount``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.processes.launch import tried

_MOUNT = """
mount --bind -- "$1" "$1" && mount -o remount,bind,ro -- "$1" && [ ! -w "$1" ] || exit 125
echo read-only > "$2"
shift 2
exec "$@"
"""
"""Not even root can write to such a mount, and ``-w`` reports that."""

_SELF_TEST_PATIENCE = 20.0


def command(root: Path, log: Path, program: Sequence[str]) -> tuple[str, list[str]]:
    """The program and arguments that start ``program`` with ``root`` read-only and record that in
    ``log``."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = ["sh", "-c", _MOUNT, "sh", str(root), str(log)]
    return "/usr/bin/env", ["unshare", *as_root, "--mount", "--", *script, *program]


def was_read_only(log: Path) -> bool:
    """Whether the command with this log saw its directory read-only."""
    return log.is_file() and log.read_text(encoding="utf-8") == "read-only\n"


@lru_cache(maxsize=1)
def works() -> bool:
    """Whether this machine lets the user do this."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-read-only-") as name:
        root, log = Path(name, "root"), Path(name, "log")
        root.mkdir()
        program, arguments = command(root, log, ["sh", "-c", '! touch "$0/new"', str(root)])
        ended = tried([program, *arguments], _SELF_TEST_PATIENCE)
        return ended is not None and ended.returncode == 0 and was_read_only(log)
