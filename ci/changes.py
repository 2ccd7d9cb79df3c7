"""Small changes in a vendor's Python, one at a time: are they noticed?

Run by ``ci/verify-torchair --changes`` and ``ci/verify-op-compiler DIR --changes``. A table of
changes says what is found (a regular expression, once in its file), what is put there, and which
check is to notice. A change is noticed where that check fails or warns; unchanged, each of them has
to pass or to be a known deviation.
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
"""Nothing that was not decided is noticed."""


@dataclass(frozen=True)
class Change:
    """One change; ``check`` is the name of the check that is to notice it, and ``form`` what
    ``{form}`` of the command is for it."""

    name: str
    file: str
    find: str
    put: str
    check: str
    form: str = ""

    def make(self, copy: Path) -> None:
        """Make it in a copy of the original.

        Raises:
            SystemExit: where this release has no such place.
        """
        path = copy / self.file
        text, found = re.subn(self.find, self.put, path.read_text(), flags=re.M | re.S)
        if found != 1:
            sys.exit(
                f"ci/changes.py: {self.name}: what is to be changed is {found} times in "
                f"{self.file}; write 'find' so that it is there once."
            )
        path.write_text(text)


def read(table: Path, names: Sequence[str]) -> list[Change]:
    """The changes of a table, or those of these names."""
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
    """What the checks say of a copy: the worst verdict of each, "" where it was not judged."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        words = [each.replace("{copy}", str(copy)).replace("{form}", form) for each in command]
        chosen = ["-k", " or ".join(sorted(set(checks))), f"--ascend-report={report}"]
        subprocess.run([*words, *chosen], stdout=subprocess.DEVNULL, check=False)
        judged = json.loads(report.read_text())["checks"] if report.exists() else []
    found = dict.fromkeys(checks, "")
    for each in judged:
        name = each["check"].rpartition("::")[2].partition("[")[0]
        if name in found and found[name] not in _NOTICED:
            worse = not found[name] or each["verdict"] not in _FINE
            found[name] = each["verdict"] if worse else found[name]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path, help="TOML: the changes")
    parser.add_argument("original", type=Path, help="directory that is copied and changed")
    parser.add_argument("names", nargs="*", help="changes to be made; all of them without")
    own, command = sys.argv[1:], []
    if "--" in own:
        place = own.index("--")
        own, command = own[:place], own[place + 1 :]
    given = parser.parse_args(own)
    changes = read(given.table, given.names)
    unnoticed = []
    for form in sorted({each.form for each in changes}):
        checks = [each.check for each in changes if each.form == form]
        for check, verdict in verdicts(command, given.original, form, checks).items():
            if verdict not in _FINE:
                print(f"{check} is {verdict or 'not judged'} although nothing was changed")
                unnoticed.append(check)
    for change in changes:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, given.original.name)
            shutil.copytree(given.original, copy, symlinks=True)
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
