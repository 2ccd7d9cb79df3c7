"""Judges broken stand-ins in the smallest selection, and scores what a reader sees first.

A stand-in is a script in ``ci/blame.d`` that takes the place of ``atc`` or ``op_compiler`` and
calls the embedded reference, with one bug of its own (two, where ``truth.toml`` says so), or none:
then it is merely different, and nothing may be said against it. Toolchains that are no command,
such as ranks and installers, are the reference with a seeded defect, judged by one part of the
suite. ``truth.toml`` has the bug as a user would tell it, and what the first cause has to name and
to say. The score is read from the JSON report: never from a check's name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.words.layout import columns

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
POOL = ROOT / "ci/blame.d"
OPP = ROOT / "pytest_ascendcache/reference/opp"
COLUMNS = 80
LINES = 30
_FIRST, _LAST = re.compile("=+ ascend cache contract =+"), re.compile("evidence: /")


@dataclass(frozen=True)
class Score:
    """What a reader sees of one stand-in: whether the first cause names what is broken, in how many
    causes, and on how many lines of 80 columns."""

    name: str
    bugs: int
    is_first: bool
    named: int
    causes: int
    lines: int
    seconds: float
    headline: str

    @property
    def is_good(self) -> bool:
        """Whether the first cause is the bug, each bug is one cause, and the answer is short."""
        return (
            self.is_first
            and self.causes == self.named == self.bugs
            and self.lines <= LINES * max(self.bugs, 1)
        )

    def row(self) -> str:
        """A line of the table."""
        marks = f"{'yes' if self.is_first else 'NO':<6}{self.causes:>3}/{self.bugs}"
        size = f"{self.lines:>6}{self.seconds:>6.0f} s"
        return f"{self.name:<24} {marks} {size}  {self.headline}"


def main() -> int:
    """Judge the stand-ins. Returns 1 if one is not named first."""
    parser = argparse.ArgumentParser(prog="ci/blame", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of stand-ins (default: all)")
    parser.add_argument("--pool", type=Path, default=POOL, metavar="DIR", help="of stand-ins")
    parser.add_argument("--quick", action="store_true", help="only those that truth.toml calls so")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="for output and reports")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="(default: 2)")
    options = parser.parse_args()
    truth = tomllib.loads((options.pool / "truth.toml").read_text(encoding="utf-8"))
    names = options.names or [
        each for each, of_it in truth.items() if not options.quick or of_it.get("quick")
    ]
    if unknown := [each for each in names if each not in truth]:
        parser.error(f"{options.pool}/truth.toml has no stand-in {unknown[0]!r}")
    scores: list[Score] = []
    with tempfile.TemporaryDirectory(prefix="ascendcache-blame-") as work:
        keep = (options.keep or Path(work, "kept")).absolute()
        with ThreadPoolExecutor(options.at_once) as pool:
            running = [
                pool.submit(judge, each, truth[each], options.pool, Path(work), keep)
                for each in names
            ]
            for each in as_completed(running):
                scores.append(each.result())
                print(scores[-1].row(), flush=True)
        if options.keep:
            found = [asdict(each) for each in sorted(scores, key=lambda each: each.name)]
            (keep / "scores.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    good, first = (sum(getattr(each, name) for each in scores) for name in ("is_good", "is_first"))
    causes, bugs = (sum(getattr(each, name) for each in scores) for name in ("causes", "bugs"))
    longest = max(each.lines for each in scores)
    print(
        f"{len(scores)} stand-ins: {first} named first, {good} with one cause for each bug in "
        f"{LINES} lines; {causes} causes for {bugs} bugs; the longest answer has {longest} lines"
    )
    return int(first < len(scores))


def judge(name: str, truth: Mapping[str, Any], pool: Path, work: Path, keep: Path) -> Score:
    """Judge one stand-in, installed like a toolkit of a known release."""
    home, kept = work / name, keep / name
    (home / "bin").mkdir(parents=True)
    kept.mkdir(parents=True, exist_ok=True)
    scripts = Path(sys.executable).parent
    if defect := truth.get("defect"):
        toolchain = f"--ascend-defect={defect}"
    else:
        program = home / "bin" / truth.get("program", "atc")
        toolchain = f"--ascend-{program.name.replace('_', '-')}={program}"
        shutil.copy(next(pool.glob(f"{name}.*")), program)
        shutil.copy(POOL / "arguments", home / "bin")
        program.chmod(0o755)
        (home / "opp").symlink_to(OPP)
        version = "Version=8.0.RC3\nversion_dir=8.0.RC3\n"
        (home / "version.info").write_text(version, encoding="utf-8")
    part = truth.get("part")
    command = [
        *(sys.executable, "-m", "pytest", "--ascend-cache", toolchain),
        *(() if part else ("--ascend-select=60runs",)),
        *("-p", "no:cacheprovider", f"--ascend-report={kept}/report.json"),
        *(f"--ascend-html={kept}/page.html", "--pyargs"),
        f"pytest_ascendcache.conformance{f'.{part}' if part else ''}",
        *truth.get("options", ()),
    ]
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "REAL_ATC": str(scripts / "ascendcache-atc"),
        "REAL_OP_COMPILER": str(scripts / "ascendcache-op-compiler"),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }
    began = time.monotonic()
    with (kept / "log.txt").open("wb") as log:
        subprocess.run(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    seconds = time.monotonic() - began
    report = json.loads((kept / "report.json").read_text(encoding="utf-8"))
    output = (kept / "log.txt").read_text(encoding="utf-8", errors="replace")
    return scored(name, truth, report, answer_lines(output), seconds)


def answer_lines(output: str) -> int:
    """The lines that a terminal of 80 columns shows from the first heading of the report to the
    place of the evidence, without those of pytest."""
    lines = output.splitlines()
    places = range(len(lines))
    begin = next((each for each in places if _FIRST.match(lines[each])), len(lines))
    end = next((each for each in places if _LAST.match(lines[each])), len(lines) - 1)
    return sum(max(1, -(-columns(line) // COLUMNS)) for line in lines[begin : end + 1])


def scored(
    name: str, truth: Mapping[str, Any], report: Mapping[str, Any], lines: int, seconds: float
) -> Score:
    """The score of a report."""
    bugs = [] if "innocent" in truth else truth.get("bugs") or [truth]
    said = [each["headline"] or each["reason"] for each in report["causes"]]
    return Score(
        name=name,
        bugs=len(bugs),
        is_first=any(names(said[0], bug) for bug in bugs) if said else not bugs,
        named=sum(any(names(each, bug) for each in said) for bug in bugs),
        causes=len(said),
        lines=lines,
        seconds=round(seconds, 1),
        headline=said[0] if said else "nothing is wrong",
    )


def names(headline: str, bug: Mapping[str, Any]) -> bool:
    """Whether a headline names what is broken, if the truth lists names, and says one of the words
    that are accepted for what is wrong with it."""
    lowered = headline.lower()
    subjects = bug["subject"] if isinstance(bug["subject"], list) else [""]
    return all(
        any(each.lower() in lowered for each in wanted) for wanted in (subjects, bug["accept"])
    )


if __name__ == "__main__":
    sys.exit(main())
