"""Suggested removals as a shell script that checks each file again before it removes it."""

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
# It removes all files of an entry or none: only if each of them still is what the audit saw, by
# inode, type, size and modification time. It prints what it kept, and then exits with status 1.
set -u
removed=0 kept=0

# Prints what a name is now: "inode type size seconds", or "none". Follows no link.
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
    """The removals in one directory, gathered in a file, for a cache may have a million."""

    def __init__(self, directory: Path) -> None:
        self.entries = 0
        self.bytes = 0
        self._directory = directory.absolute()
        self._lines = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the plan

    def add(self, removal: Removal) -> None:
        """Suggest to remove those files of an entry that exist."""
        seen = {path: self._seen(path) for path in dict.fromkeys(removal.paths)}
        if all(state == "none" for state, _ in seen.values()):
            return
        self.entries += 1
        self.bytes += sum(size for _, size in seen.values())
        self._lines.write(f"\n# {removal.rule}\nentry ".encode() + _quoted(removal.reason))
        for path, (state, _) in seen.items():
            name = b"./" + os.fsencode(path)
            self._lines.write(b" \\\n  " + _quoted(name) + f" '{state}'".encode())
        self._lines.write(b"\n")

    def _seen(self, path: str) -> tuple[str, int]:
        """Return the state that the script compares, and the bytes of the file."""
        try:
            info = (self._directory / path).lstat()
        except (OSError, ValueError):
            return "none", 0
        seconds = info.st_mtime_ns // 10**9
        return f"{info.st_ino} {info.st_mode:x} {info.st_size} {seconds}", info.st_size

    def text(self) -> bytes:
        """Return the script's lines for this directory."""
        self._lines.seek(0)
        place = _quoted(os.fsencode(self._directory))
        return b"\ncd -- " + place + b" || exit 2\n" + self._lines.read()


def _quoted(text: str | bytes) -> bytes:
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return b"'" + raw.replace(b"'", b"'\\''") + b"'"


def write_plan(path: Path, plans: Sequence[RemovalPlan]) -> None:
    """Write the script, as a whole or not at all. Raises ``OSError`` if it cannot be written."""
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
    """Return whether :func:`write_plan` wrote a file, so that a new plan may replace it. Raises
    ``OSError`` if it cannot be read."""
    return read_input(path).startswith(_HEAD.partition("{when}")[0].encode())
