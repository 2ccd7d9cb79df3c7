"""Small changes in CANN's cache code, one at a time: how many does the suite notice?

Run by ``ci/verify-cann --mutants=N``. Only lines that a run of the suite executes are changed. A
mutant counts as noticed where a check says something that it does not say of the original; what
does not compile is none.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.toolchains.cann_cache import Builder, SourceError
from pytest_ascendcache.toolchains.cann_cache.build import default_store
from pytest_ascendcache.toolchains.cann_cache.plan import Plan

_SOURCE = "compiler/opcompiler/op_compile_adapter/source"
_PARSERS = "compiler/engines/nn_engine/utils/common/config_parser"
_TARGETS = (
    f"{_SOURCE}/cache/te_cache_manager.cc",
    f"{_SOURCE}/cache/te_cache_space_manager.cc",
    f"{_SOURCE}/cache/te_cache_utils.cc",
    f"{_SOURCE}/common/compile_result_utils.cc",
    f"{_SOURCE}/common/te_file_utils.cc",
    f"{_SOURCE}/assemble_json/te_json_assemble.cc",
    f"{_PARSERS}/op_debug_config_parser.cc",
    f"{_PARSERS}/op_impl_mode_config_parser.cc",
)
"""The code that decides what is stored, served, purged, aged, and under which key."""

_NOT_CODE = re.compile(
    r"^\s*(//|\*|/\*|#|TE_\w*LOG|FE_LOG|REPORT_|return nullptr)|RecordStatistics|\.c_str\(\)"
)
"""Lines that say something and decide nothing; changing them changes no behaviour."""

_CHANGES = (
    ("comparison", r" == ", " != "),
    ("comparison", r" != ", " == "),
    ("comparison", r" >= ", " > "),
    ("comparison", r" <= ", " < "),
    ("comparison", r" < ", " <= "),
    ("comparison", r" > ", " >= "),
    ("condition", r" && ", " || "),
    ("condition", r" \|\| ", " && "),
    ("condition", r"if \(!", "if ("),
    ("constant", r"return true;", "return false;"),
    ("constant", r"return false;", "return true;"),
    ("constant", r"\+ 1\b", "+ 2"),
    ("missing call", r"^(\s+)[\w.>:-]+\(.*\);$", r"\1;"),
    ("missing call", r"^(\s+)\w+(\[\"\w+\"\])? = .*;$", r"\1;"),
)


@dataclass(frozen=True)
class Mutant:
    """One changed line (1-based) of a file below the checkout."""

    file: str
    line: int
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        name = Path(self.file).name
        return f"{name}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


def mutants(root: Path, executed: dict[str, set[int]]) -> Iterator[Mutant]:
    """Every change of an executed line."""
    for file in _TARGETS:
        lines = (root / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if number not in executed.get(file, ()) or _NOT_CODE.search(line):
                continue
            for kind, pattern, replacement in _CHANGES:
                changed = re.sub(pattern, replacement, line, count=1)
                if changed != line:
                    yield Mutant(file, number, kind, line, changed)


def copy_of(source: Path, to: Path, plan: Plan) -> None:
    """What a build reads of a checkout."""
    for group in plan.groups:
        for include in group.includes:
            if (source / include).is_dir():
                shutil.copytree(source / include, to / include, dirs_exist_ok=True, symlinks=True)
        for file in group.sources:
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / file, to / file)


def judge(
    source: Path, *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, str]:
    """Exit status and output of the suite."""
    command = [sys.executable, "-m", "pytest", "--ascend-cache", f"--ascend-cann-source={source}"]
    options = ["-n", "2", "-q", "-p", "no:cacheprovider", "--ascend-timeout=30", "--ascend-strict"]
    with tempfile.TemporaryDirectory(prefix="ascendcache-judge-") as empty:  # no tests of others
        ended = subprocess.run(
            [*command, *options, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=empty,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    return ended.returncode, ended.stdout


def executed_lines(source: Path, work: Path, more: list[str]) -> dict[str, set[int]]:
    """Lines of the targets that a run of the suite executes, told by gcov."""
    cache = work / "coverage"
    environment = {
        "XDG_CACHE_HOME": str(cache),
        "CXXFLAGS": "--coverage",
        "LDFLAGS": "--coverage",
    }
    judge(source, *more, environment=environment)
    executed: dict[str, set[int]] = {}
    for counts in cache.rglob("*.gcda"):
        said = subprocess.run(
            ["gcov", "--json-format", "--stdout", str(counts)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for document in map(json.loads, said.splitlines()):
            for file in document["files"]:
                lines = {each["line_number"] for each in file["lines"] if each["count"] > 0}
                executed.setdefault(file["file"], set()).update(lines)
    return executed


def run(source: Path, count: int, seed: int, work: Path, more: list[str]) -> int:
    """Judge ``count`` mutants, with ``more`` arguments for pytest; 2 where the original is not
    judged twice as once."""
    plan = Plan.load()
    original = work / "original"
    copy_of(source, original, plan)
    builder = Builder(plan=plan)
    builder.build(original)
    baseline = work / "original.json"
    _, said = judge(original, f"--ascend-report={baseline}", *more)
    if not baseline.exists():
        print(f"ci/verify-cann: the original cannot be judged:\n{said[-2000:]}", file=sys.stderr)
        return 2
    code, said = judge(original, f"--ascend-baseline={baseline}", *more)
    if code != 0:
        print(f"ci/verify-cann: two runs of the original differ:\n{said[-2000:]}", file=sys.stderr)
        return 2
    executed = executed_lines(original, work, more)
    candidates = list(mutants(original, executed))
    chosen = random.Random(seed).sample(candidates, min(len(candidates), 3 * count))
    print(f"{len(candidates)} changes of executed lines; {count} are judged (seed {seed})")
    noticed = judged = 0
    for mutant in chosen:
        if judged == count:
            break
        verdict = _judge_mutant(mutant, original, builder, baseline, more)
        if verdict is None:
            continue
        judged += 1
        noticed += verdict != ""
        print(
            f"{'noticed ' if verdict else 'MISSED  '} [{mutant.kind}] {mutant} {verdict}",
            flush=True,
        )
    print(f"mutants: {noticed} of {judged} noticed ({noticed / max(judged, 1):.0%})")
    return 0


def _judge_mutant(
    mutant: Mutant, original: Path, builder: Builder, baseline: Path, more: list[str]
) -> str | None:
    """Which check noticed; "" for none, ``None`` where the mutant does not compile."""
    path = original / mutant.file
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        builder.build(original)
        code, said = judge(original, f"--ascend-baseline={baseline}", "-x", *more)
    except SourceError:
        return None
    finally:
        path.write_text(text, encoding="utf-8")
    if code == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) \S*::(\S+)", said, re.M)
    return failed[1] if failed else f"(the run ended with {code})"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Mutants of CANN's cache code against the suite.")
    parser.add_argument("source", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given, more = parser.parse_known_args()
    if given.count < 1:
        parser.error(f"{given.count} mutants cannot be judged; give 1 or more")
    default_store().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=default_store()) as name:
        try:
            return run(given.source.resolve(), given.count, given.seed, Path(name), more)
        except SourceError as error:
            print(f"ci/verify-cann: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
