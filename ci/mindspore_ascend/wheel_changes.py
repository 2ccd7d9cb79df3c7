"""Makes the changes of ``changes.toml`` one at a time and counts those that the suite notices.

Run by ``ci/verify-mindspore-ascend RELEASE --changes``. A change is made in a copy of MindSpore's
Python files, beside links to everything else, or of the stand-ins. It is noticed if a check fails
or warns that passes on the unchanged release; the first such check ends the run. An undecided check
notices nothing. Answers are kept, so that an interrupted run continues.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.toolchains.mindspore_ascend.stand_ins import NATIVE

HERE = Path(__file__).parent
WANTED = 18
"""How many of the changes must be noticed."""

CHOSEN = (
    "(leaves_three_files and square) or second_run_compiles or fused or world_writable or both-set"
    " or (one_changed_operator and (attribute or dtype) and not left) or order-of-inputs"
    " or (every_operator and graph) or looks_in_its_own or with-a-blank or deleted_is_compiled"
)
"""Checks that each ask another question, as an expression for pytest's ``-k``."""


@dataclass(frozen=True)
class Change:
    """One change of one file."""

    name: str
    where: str
    file: str
    old: str
    new: str


def load(path: Path = HERE / "changes.toml") -> list[Change]:
    """The changes, in the order of the file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Change(each["name"], each["in"], each["file"], each["old"], each["new"])
        for each in content["change"]
    ]


def changed(release: Path, change: Change, target: Path) -> Path:
    """Make a release with the change in ``target``; returns its Python. Raises ``ValueError`` if
    the release does not have the text to be changed."""
    package, native = target / "site" / "mindspore", target / "native"
    shutil.copytree(NATIVE / "python", native)
    package.mkdir(parents=True)
    for path in (release / "wheel" / "mindspore").iterdir():
        copy = package / path.name
        if path.name == "_extends":
            shutil.copytree(path, copy)
        elif path.suffix == ".py":
            shutil.copy(path, copy)
        else:
            copy.symlink_to(path)
    for path in (release / "wheel").glob("*.dist-info"):
        (target / "site" / path.name).symlink_to(path)
    edited = (package if change.where == "wheel" else native) / change.file
    text = edited.read_text(encoding="utf-8")
    if change.old not in text:
        raise ValueError(f"{change.name}: {change.file} does not hold {change.old!r}")
    edited.write_text(text.replace(change.old, change.new, 1), encoding="utf-8")
    (target / "shelf").mkdir()
    command = (release / "python").read_text(encoding="utf-8")
    path_line = f"export PYTHONPATH={native}:{target / 'site'}"
    command = re.sub(r"^export PYTHONPATH=.*$", path_line, command, flags=re.MULTILINE)
    python = target / "python"
    python.write_text(command, encoding="utf-8")
    python.chmod(0o755)
    return python


def judge(python: Path, report: Path, chosen: Sequence[str]) -> dict[str, str]:
    """Verdicts on a release by check; ``chosen`` are the arguments that choose the checks."""
    command = [
        *(sys.executable, "-m", "pytest", "--ascend-cache", "--ascend-select=whole"),
        f"--ascend-toolchain=mindspore-ascend:{python}",
        *(f"--ascend-report={report}", "-p", "no:cacheprovider", "-n", "0", *chosen),
    ]
    subprocess.run(command, capture_output=True, check=False)
    checks = json.loads(report.read_text(encoding="utf-8"))["checks"]
    return {each["check"]: each["verdict"] for each in checks}


def _address(check: str) -> str:
    """The argument that chooses one check of a report."""
    module, _, name = check.partition("::")
    return f"{module.removesuffix('.py').replace('/', '.')}::{name}"


def main() -> int:
    """Entry point. Returns 1 if too few changes are noticed."""
    parser = argparse.ArgumentParser(description="Counts changes that the suite notices.")
    parser.add_argument("shelf", type=Path)
    parser.add_argument("release")
    given = parser.parse_args()
    release = given.shelf / given.release
    with tempfile.TemporaryDirectory(prefix="ascendcache-changes-") as name:
        room = Path(name)
        whole = ("-k", CHOSEN, "--pyargs", "pytest_ascendcache.conformance")
        before = judge(release / "python", room / "before.json", whole)
        passing = [check for check, verdict in before.items() if verdict == "pass"]
        print(f"{given.release}: {len(passing)} of {len(before)} checks pass", flush=True)
        again = ("--maxfail=1", "--pyargs", *map(_address, passing))

        kept_by = given.shelf / "reports" / f"changes-{given.release}.json"
        kept = json.loads(kept_by.read_text(encoding="utf-8")) if kept_by.exists() else {}

        def attempt(numbered: tuple[int, Change]) -> bool:
            number, change = numbered
            key = f"{change.file}: {change.old} -> {change.new}"
            if key not in kept:
                target = room / str(number)
                seen = judge(changed(release, change, target), room / f"{number}.json", again)
                by = [check for check, verdict in seen.items() if verdict in ("fail", "warn")]
                shutil.rmtree(target)
                kept[key] = by[0].rpartition("::")[2] if by else ""
                kept_by.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            print(f"{number}. {change.name}: {kept[key] or 'no check'}", flush=True)
            return bool(kept[key])

        changes = load()
        with ThreadPoolExecutor(2) as pool:
            found = sum(pool.map(attempt, enumerate(changes, 1)))
    print(f"{found} of {len(changes)} changes are noticed; {WANTED} must be")
    return int(found < WANTED)


if __name__ == "__main__":
    sys.exit(main())
