"""Makes small changes in a vendor's Python, one at a time, and reports whether checks notice them.

Run by ``ci/verify-torchair --changes`` and ``ci/verify-op-compiler DIR --changes``. A table has
for each change a regular expression that matches once in its file, the replacement, and the check
that must notice it. The check notices a change if it fails or warns. Without a change it must pass
or be a known deviation.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib

_FINE = ("pass", "known deviation")
_NOTICED = ("fail", "warn")
"""An undecided check notices nothing."""


@dataclass(frozen=True)
class Change:
    """One change. ``check`` must notice it; ``form`` replaces ``{form}`` in the command."""

    name: str
    file: str
    find: str
    put: str
    check: str
    form: str = ""

    def make(self, copy: Path) -> None:
        """Make the change in a copy of the original.

        Raises:
            SystemExit: if ``find`` does not match exactly once in this release.
        """
        path = copy / self.file
        text, matches = re.subn(self.find, self.put, path.read_text(), flags=re.M | re.S)
        if matches != 1:
            sys.exit(
                f"ci/changes.py: {self.name}: 'find' matches {matches} times in {self.file}; it "
                "must match once."
            )
        path.write_text(text)


def read(table: Path, names: Sequence[str]) -> list[Change]:
    """Return the changes of a table, or those with these names."""
    document = tomllib.loads(table.read_text())
    common = {key: value for key, value in document.items() if isinstance(value, str)}
    changes = [Change(**{**common, **each}) for each in document["change"]]
    known = [each.name for each in changes]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"ci/changes.py: no change is called '{unknown[0]}'; use {', '.join(known)}.")
    return [each for each in changes if not names or each.name in names]


def verdicts(
    command: Sequence[str], copy: Path, form: str, checks: Sequence[str]
) -> dict[str, str]:
    """Judge a copy; returns the worst verdict of each check, "" if it did not run."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        words = [each.replace("{copy}", str(copy)).replace("{form}", form) for each in command]
        chosen = ["-k", " or ".join(sorted(set(checks))), f"--ascend-report={report}"]
        subprocess.run([*words, *chosen], stdout=subprocess.DEVNULL, check=False)
        judged = json.loads(report.read_text())["checks"] if report.exists() else []
    worst = dict.fromkeys(checks, "")
    for each in judged:
        name = each["check"].rpartition("::")[2].partition("[")[0]
        if name in worst and worst[name] not in _NOTICED:
            worse = not worst[name] or each["verdict"] not in _FINE
            worst[name] = each["verdict"] if worse else worst[name]
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path, help="the changes, in TOML")
    parser.add_argument("original", type=Path, help="the directory to copy and change")
    parser.add_argument("names", nargs="*", help="the changes to make; all by default")
    words, command = sys.argv[1:], []
    if "--" in words:
        place = words.index("--")
        words, command = words[:place], words[place + 1 :]
    options = parser.parse_args(words)
    changes = read(options.table, options.names)
    unnoticed = []
    for form in sorted({each.form for each in changes}):
        checks = [each.check for each in changes if each.form == form]
        for check, verdict in verdicts(command, options.original, form, checks).items():
            if verdict not in _FINE:
                print(f"{check} is {verdict or 'not judged'} although nothing was changed")
                unnoticed.append(check)
    for change in changes:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, options.original.name)
            shutil.copytree(options.original, copy, symlinks=True)
            change.make(copy)
            verdict = verdicts(command, copy, change.form, [change.check])[change.check]
        noticed = verdict in _NOTICED
        print(f"{change.name}: {change.check} is {verdict or 'not judged'}", flush=True)
        unnoticed += [] if noticed else [change.name]
    print(
        f"{len(changes) - len(set(unnoticed) & {each.name for each in changes})} of "
        f"{len(changes)} changes are noticed"
    )
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
