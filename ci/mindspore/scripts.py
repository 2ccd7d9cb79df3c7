"""Runs the scripts of ``top_ten.toml`` with MindSpore's wheel and writes the page about them.

``ci/mindspore/scripts.py PYTHON PAGE.md [--only WORD | --setting RELEASES]``. Bash runs each script
in an empty directory with that Python first on PATH. The page shows the script's output and errors,
which decide whether the finding was seen.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.files import read_text, write_output

FINDINGS = Path(__file__).with_name("top_ten.toml")
PATIENCE = 600.0
"""Seconds for one script."""

_SHOWN, _WIDTH = 40, 240
"""How many lines of a script's output are shown, from its end, and how many characters of each."""

_PAGE = """\
# MindSpore {release}: the ten findings that hurt most

Written by `ci/verify-mindspore --scripts`, which ran every script below as it stands; do not edit.
{shown} of {all} were seen in this run. The suite's other findings are on a page that goes check by
check, `docs/findings/mindspore-<release>.md`.

{environment}

To repeat one, paste this, and then the script, into bash in an empty directory:

```console
python3.11 -m venv venv && . venv/bin/activate
pip install mindspore=={release} decorator
```
"""

_SETTING = """\
{environment}

To repeat findings, paste these lines, where `REPOSITORY` is that of pytest-ascendcache, then the
first line of a section, and then the command below a finding:

```console
git clone "$REPOSITORY" pytest-ascendcache && cd pytest-ascendcache
ci/verify-mindspore {releases} -k second_run
```

Scripts that need MindSpore alone are on [another page](mindspore-{release}-scripts.md).
"""


@dataclass(frozen=True)
class Ran:
    """A script's output, and whether it shows the finding; None if the script could not run."""

    finding: dict[str, Any]
    output: str
    shown: bool | None


def run(finding: dict[str, Any], python: Path) -> Ran:
    """Run one script to its end, and kill the processes that it leaves running."""
    needs = [each for each in ("g++", finding.get("needs", "")) if each]
    missing = [each for each in needs if shutil.which(each) is None]
    if missing:
        return Ran(finding, f"{missing[0]} is not on PATH", None)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MS_", "RANK"))}
    path = f"{python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    with tempfile.TemporaryDirectory(prefix="mindspore-") as directory:
        process = subprocess.Popen(
            ["bash", "-c", finding["script"]],
            cwd=directory,
            env={**kept, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            _kill(process)
            output = f"{process.communicate()[0]}\nstill running after {PATIENCE:g} s"
        finally:
            _kill(process)  # leftovers of the script, or all of it after Ctrl-C
        output = output.replace(directory, "$PWD").replace(str(python.parent.parent), "venv")
        output = output.replace(_home_of(python), "python")
    return Ran(finding, output, re.search(finding["shows"], output) is not None)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _home_of(python: Path) -> str:
    """Return where the base Python of an environment is installed."""
    command = [str(python), "-c", "import sys; print(sys.base_prefix)"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def environment(python: Path) -> tuple[str, str]:
    """Return MindSpore's release, and a table of the software that runs the scripts."""

    def first_line(*command: str) -> str:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = ended.stdout.strip().splitlines()
        return lines[0] if lines else "not installed"

    probe = (
        "import importlib.metadata as m, hashlib; d = m.distribution('mindspore'); print(d.version,"
        "hashlib.sha256((d.read_text('RECORD') or '').encode()).hexdigest())"
    )
    release, _, digest = first_line(str(python), "-c", probe).partition(" ")
    rows = {
        "MindSpore": f"{release}, RECORD of the wheel has SHA-256 `{digest}`",
        "Python": first_line(str(python), "--version"),
        "system": f"{first_line('sh', '-c', '. /etc/os-release; echo $PRETTY_NAME')}, "
        f"{platform.machine()}, kernel {platform.release()}, {os.cpu_count()} cores",
        "g++": first_line("g++", "--version"),
        "strace": first_line("strace", "--version"),
        "date": datetime.now(tz=timezone.utc).strftime("%Y-%m-%d"),
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return release, f"| | |\n|---|---|\n{table}"


def section(number: int, ran: Ran) -> Iterator[str]:
    """Yield the lines of one finding on the page."""
    finding = ran.finding
    seen = {True: "seen in this run", False: "NOT SEEN in this run", None: "not run"}[ran.shown]
    yield f"\n## {number}. {finding['title']}\n"
    yield f"*{finding['cache']}; {finding['harm']}; {seen}.* {finding['impact']}\n"
    yield f"```bash\n{finding['script'].strip()}\n```\n"
    yield f"Expected: {finding['expected']} It prints:\n"
    yield f"```text\n{shortened(ran.output)}\n```\n"
    yield f"Where: {finding['source']}\n"
    yield f"A fix: {finding['fix']}"


def shortened(output: str) -> str:
    """Return the last lines of an output, each cut to a width."""
    lines = [each if len(each) <= _WIDTH else f"{each[:_WIDTH]}..." for each in output.splitlines()]
    kept = lines[-_SHOWN:]
    return "\n".join([*(["..."] if len(lines) > len(kept) else []), *kept])


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns 1 if a script does not show its finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", type=Path)
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--setting",
        metavar="RELEASES",
        help="run nothing; write what the suite runs with, and how to set up these releases",
    )
    parser.add_argument("--only", default="", help="only scripts whose title contains this")
    parser.add_argument("--findings", type=Path, default=FINDINGS)
    options = parser.parse_args(arguments)
    python = options.python.absolute()
    if options.setting:
        release, table = environment(python)
        page = _SETTING.format(release=release, releases=options.setting, environment=table)
        write_output(options.page, page)
        return 0
    findings = tomllib.loads(read_text(options.findings))["finding"]
    ran = []
    for each in (each for each in findings if options.only in each["title"]):
        ran.append(run(each, python))
        print(f"{ran[-1].shown!s:5}  {each['title']}", flush=True)
    release, table = environment(python)
    shown = sum(each.shown is True for each in ran)
    page = _PAGE.format(release=release, environment=table, shown=shown, all=len(ran))
    numbered = enumerate(ran, 1)
    page += "\n".join(line for number, each in numbered for line in section(number, each)) + "\n"
    write_output(options.page, page)
    return 0 if shown == len(ran) else 1


if __name__ == "__main__":
    sys.exit(main())
