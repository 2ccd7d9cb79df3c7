"""Suggested removals as a shell script that looks again before it removes anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_ascendcache.audit.findings import Removal
from pytest_ascendcache.audit.limits import megabytes
from pytest_ascendcache.files import open_output, read_input

_HEAD = """\
#!/bin/sh
# Removals suggested by pytest --ascend-audit, {when}: {entries} entries or files, {size}.
# Nothing has been removed yet. Read it, delete what you want to keep, and run: sh {name}
# All files of an entry go, or none: only if each of them is what the audit saw, by inode, type,
# size and modification time. Says what it kept; exit status 1 if there was any.
set -u
removed=0 kept=0

# What a name is now: "inode type size seconds", or "none". A link is not followed.
seen() {{ stat -c '%i %f %s %Y' -- "$1" 2>/dev/null || echo none; }}

# entry DESCRIPTION (NAME SEEN)...
entry() {{
  description=$1
  shift
  pairs=$#
  while [ "$pairs" -gt 0 ]; do
    if [ "$(seen "$1")" != "$2" ]; then
      printf 'kept, it has changed: %s\\n' "$description"
      kept=$((kept + 1))
      return
    fi
    set -- "$@" "$1" "$2"
    shift 2
    pairs=$((pairs - 2))
  done
  while [ "$#" -gt 0 ]; do
    if [ "$2" != none ] && ! rm -f -- "$1"; then
      kept=$((kept + 1))
      return
    fi
    shift 2
  done
  removed=$((removed + 1))
}}

if [ "$(seen /)" = none ]; then
  echo 'this needs stat with -c, of the GNU coreutils or busybox' >&2
  exit 2
fi
"""

_TAIL = """
printf '%d removed, %d kept\\n' "$removed" "$kept"
[ "$kept" -eq 0 ]
"""


class RemovalPlan:
    """The part of a plan for one directory, gathered in a file: there may be very many."""

    def __init__(self, directory: Path) -> None:
        self.entries = 0
        self.bytes = 0
        self._directory = directory.absolute()
        self._lines = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the plan

    def add(self, removal: Removal) -> None:
        """Suggest to remove what is there of an entry's files."""
        seen = {path: self._seen(path) for path in dict.fromkeys(removal.paths)}
        states = {path: state for path, (state, _) in seen.items()}
        if {*states.values()} == {"none"}:
            return
        self.entries += 1
        self.bytes += sum(size for _, size in seen.values())
        self._lines.write(f"\n# {removal.rule}\nentry ".encode() + _quoted(removal.reason))
        for path, state in states.items():
            name = b"./" + os.fsencode(path)
            self._lines.write(b" \\\n  " + _quoted(name) + f" '{state}'".encode())
        self._lines.write(b"\n")

    def _seen(self, path: str) -> tuple[str, int]:
        """What the script compares, and the bytes that go."""
        try:
            info = (self._directory / path).lstat()
        except (OSError, ValueError):
            return "none", 0
        seconds = info.st_mtime_ns // 10**9
        return f"{info.st_ino} {info.st_mode:x} {info.st_size} {seconds}", info.st_size

    def text(self) -> bytes:
        """The lines of this directory."""
        self._lines.seek(0)
        place = _quoted(os.fsencode(self._directory))
        return b"\ncd -- " + place + b" || exit 2\n" + self._lines.read()


def _quoted(text: str | bytes) -> bytes:
    """One word for any POSIX shell, whatever is in it."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return b"'" + raw.replace(b"'", b"'\\''") + b"'"


def write_plan(path: Path, plans: Sequence[RemovalPlan]) -> None:
    """Write the script, whole or not at all.

    Raises:
        OSError: where it cannot be written.
    """
    head = _HEAD.format(
        when=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        entries=sum(plan.entries for plan in plans),
        size=megabytes(sum(plan.bytes for plan in plans)),
        name=path.name if path.name.isprintable() else "this file",
    )
    with open_output(path) as script:
        script.write(head.encode("utf-8", "replace"))
        for plan in plans:
            if plan.entries:
                script.write(plan.text())
        script.write(_TAIL.encode())


def is_plan(path: Path) -> bool:
    """Whether a file is a script that :func:`write_plan` wrote, which a new one may replace.

    Raises:
        OSError: where it cannot be read.
    """
    return read_input(path).startswith(_HEAD.partition("{when}")[0].encode())
