"""Small changes in CANN's cache code, one at a time: how many does the suite notice?

Run by ``ci/verify-cann --mutants=N``. Only lines that the smoke selection executes are changed. A
mutant counts as noticed where the suite with the lists of known deviations is no longer green; what
does not compile is none. Checks run in stages, the cheapest first, up to the first that notices.
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
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import load_rules
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

_ABOUT = {
    "te_cache_manager": ("cache-mode/", "robust/heals", "robust/interrupted", "security/"),
    "te_cache_space_manager": ("aging/", "cache-mode/force", "robust/upgrade"),
    "te_cache_utils": ("cache-mode/", "aging/"),
    "compile_result_utils": ("robust/heals", "security/", "cache-mode/enable"),
    "te_file_utils": ("cache-mode/force", "security/", "robust/disk", "robust/upgrade"),
    "te_json_assemble": ("cache-mode/key", "cache-mode/transparent", "impl-mode/"),
    "op_debug_config_parser": ("debug/",),
    "op_impl_mode_config_parser": ("impl-mode/",),
}
"""What the rules are about that each of these files decides, by the beginning of their ids."""

_KNOWN = ("cann", str(Path(__file__).with_name("known.toml")))
_BROKEN = ("fail", "warn", "undecided")

_NOT_CODE = re.compile(
    r"^\s*(//|\*|/\*|#|TE_\w*LOG|FE_LOG|REPORT_|return nullptr|close(dir)?\()"
    r"|RecordStatistics|ErrMessage|Map\[\"|\.c_str\(\)"
)
"""Lines that say something and decide nothing, or close what the end of the process closes;
changing them changes no behaviour."""

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


def sample(candidates: Sequence[Mutant], seed: int) -> list[Mutant]:
    """All of them in a random order in which the files take turns: the assembly of the key is long,
    and would be half of any other sample."""
    shuffled = random.Random(seed).sample(candidates, len(candidates))
    turns: dict[str, int] = {}
    order = []
    for mutant in shuffled:
        turns[mutant.file] = turns.get(mutant.file, -1) + 1
        order.append((turns[mutant.file], _TARGETS.index(mutant.file), mutant))
    return [mutant for *_, mutant in sorted(order, key=lambda each: each[:2])]


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
) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, what the suite judged, and the output of a run with the known deviations."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-judge-") as empty:  # no tests of others
        report = Path(empty) / "report.json"
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--ascend-cache", "-q", "-p", "no:cacheprovider"),
                *(f"--ascend-cann-source={source}", f"--ascend-report={report}"),
                *(f"--ascend-deviations={each}" for each in _KNOWN),
                *("--ascend-edition=8.0.RC3", "--ascend-strict", "--ascend-timeout=60", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=empty,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        judged = json.loads(report.read_text("utf-8"))["checks"] if report.exists() else []
    return ended.returncode, judged, ended.stdout


def stages(mutant: Mutant, noticed_before: Collection[str], more: Sequence[str]) -> list[list[str]]:
    """Arguments of the runs that judge a mutant, the cheapest first: a first selection, what
    noticed another mutant, the rules its file is about, and the rest."""
    about = _ABOUT[Path(mutant.file).stem]
    rules = [f"--ascend-rule={each}" for each in load_rules() if each.startswith(about)]
    before = [["--pyargs", *map(place_of, noticed_before)]] if noticed_before else []
    return [["--ascend-smoke"], *before, ["-n", "2", *rules], ["-n", "2", *more]]


def place_of(check: str) -> str:
    """How pytest is told of a check of the suite by its node id."""
    file, _, rest = check.partition("::")
    return f"{file.removesuffix('.py').replace('/', '.')}::{rest}"


def executed_lines(source: Path, more: Sequence[str]) -> dict[str, set[int]]:
    """Lines of the targets that a run of the suite executes, told by gcov.

    Its objects are kept for another time, beside what they counted, which therefore adds up.
    """
    cache = default_store() / "coverage"
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


def run(source: Path, count: int, seed: int, work: Path, more: Sequence[str]) -> int:
    """Judge ``count`` mutants; ``more`` arguments for pytest narrow the last stage.

    What noticed a mutant has to pass on the original afterwards: else it noticed nothing.
    """
    plan = Plan.load()
    original = work / "original"
    copy_of(source, original, plan)
    builder = Builder(plan=plan)
    builder.build(original)
    candidates = list(mutants(original, executed_lines(original, ["--ascend-smoke"])))
    chosen = sample(candidates, seed)
    print(f"{len(candidates)} changes of executed lines; {count} are judged (seed {seed})")
    noticed: dict[Mutant, str] = {}
    judged = 0
    for mutant in chosen:
        if judged == count:
            break
        started = time.monotonic()
        verdict = _judge_mutant(mutant, original, builder, dict.fromkeys(noticed.values()), more)
        if verdict is None:
            continue
        judged += 1
        if verdict:
            noticed[mutant] = verdict
        word, took = "noticed" if verdict else "MISSED ", time.monotonic() - started
        print(f"{word} {took:4.0f} s [{mutant.kind}] {mutant}  {verdict}", flush=True)
    doubtful = _noticed_in(original, set(noticed.values()))
    for mutant, check in noticed.items():
        if check in doubtful:
            print(f"DOUBTFUL {mutant}  {check} does not pass on the original either")
    sure = sum(check not in doubtful for check in noticed.values())
    print(f"mutants: {sure} of {judged} noticed ({sure / max(judged, 1):.0%})")
    return 0


def _noticed_in(original: Path, checks: set[str]) -> set[str]:
    """Which of these checks break on the original too."""
    if not checks:
        return set()
    _, judged, said = judge(original, "--pyargs", *sorted(map(place_of, checks)))
    if not judged:
        raise SourceError(f"the original cannot be judged:\n{said[-2000:]}")
    passed = {each["check"] for each in judged if each["verdict"] in ("pass", "known deviation")}
    return checks - passed


def _judge_mutant(
    mutant: Mutant, original: Path, builder: Builder, before: Collection[str], more: Sequence[str]
) -> str | None:
    """Which check noticed; "" for none, ``None`` where the mutant does not compile."""
    path = original / mutant.file
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        builder.build(original)
        for arguments in stages(mutant, before, more):
            code, judged, said = judge(original, "-x", *arguments)
            if code == 0:
                continue
            broken = [each["check"] for each in judged if each["verdict"] in _BROKEN]
            if not broken:
                raise SourceError(f"{mutant}: the suite ended with {code}:\n{said[-2000:]}")
            return str(broken[0])
    except SourceError as error:
        if "does not compile" in str(error) or "is defined nowhere" in str(error):
            return None
        raise
    finally:
        path.write_text(text, encoding="utf-8")
    return ""


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
