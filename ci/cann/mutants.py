"""Small changes in CANN's cache code, one at a time: how many does the suite notice?

Run by ``ci/verify-cann --mutants=N``. Only lines that the smoke selection executes are changed. A
mutant counts as noticed where the suite with the lists of known deviations is no longer green; what
does not compile is none. Checks run in stages, the cheapest first, up to the first that notices.
Survivors that were looked at are in ``mutants.toml``: those that change nothing a document promises
are left out of the share.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutation import Mutant, mutants, sample, survivors

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.toolchains.cann_cache import Builder, SourceError
from pytest_ascendcache.toolchains.cann_cache.build import default_store
from pytest_ascendcache.toolchains.cann_cache.plan import Plan

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


@dataclass(frozen=True)
class Way:
    """How mutants are judged: by which edition, and whether all other rules judge what those that
    a file is about did not notice. ``more`` are arguments for pytest."""

    edition: str
    quick: bool = False
    more: Sequence[str] = ()


@dataclass(frozen=True)
class Choice:
    """Which mutants: how many, in the order of which seed, and texts their names may have."""

    count: int
    seed: int
    only: Sequence[str] | None


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
    source: Path, way: Way, *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, what the suite judged, and the output of a run with the known deviations."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-judge-") as empty:  # no tests of others
        report = Path(empty) / "report.json"
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--ascend-cache", "-q", "-p", "no:cacheprovider"),
                *(f"--ascend-cann-source={source}", f"--ascend-report={report}"),
                *(f"--ascend-deviations={each}" for each in _KNOWN),
                *(f"--ascend-edition={way.edition}", "--ascend-strict", "--ascend-timeout=60"),
                *(*arguments, *way.more),
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


def stages(mutant: Mutant, noticed_before: Collection[str], way: Way) -> list[list[str]]:
    """Arguments of the runs that judge a mutant, the cheapest first: a first selection, what
    noticed another mutant, the rules its file is about, and the others."""
    about = _ABOUT[Path(mutant.file).stem]
    rules = [f"--ascend-rule={each}" for each in load_rules() if each.startswith(about)]
    others = [f"--ascend-rule={each}" for each in load_rules() if not each.startswith(about)]
    before = [["--pyargs", *map(place_of, noticed_before)]] if noticed_before else []
    last = [] if way.quick else [["-n", "2", *others]]
    return [["--ascend-smoke"], *before, ["-n", "2", *rules], *last]


def place_of(check: str) -> str:
    """How pytest is told of a check of the suite by its node id."""
    file, _, rest = check.partition("::")
    return f"{file.removesuffix('.py').replace('/', '.')}::{rest}"


def executed_lines(source: Path, way: Way) -> dict[str, set[int]]:
    """Lines of the targets that the smoke selection executes, told by gcov.

    Its objects are kept for another time, beside what they counted, which therefore adds up.
    """
    cache = default_store() / "coverage"
    environment = {
        "XDG_CACHE_HOME": str(cache),
        "CXXFLAGS": "--coverage",
        "LDFLAGS": "--coverage",
    }
    judge(source, way, "--ascend-smoke", environment=environment)
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


@dataclass
class Tally:
    """What became of mutants; ``noticed`` is by which check, ``missed`` was noticed by none."""

    noticed: dict[Mutant, str] = field(default_factory=dict)
    missed: list[Mutant] = field(default_factory=list)

    @property
    def judged(self) -> int:
        """How many there were."""
        return len(self.noticed) + len(self.missed)

    def share(self, doubtful: Collection[str]) -> str:
        """The share that was noticed, of those not known to change nothing that is promised."""
        known = survivors()
        sure = sum(check not in doubtful for check in self.noticed.values())
        verdicts = [known[str(each)].verdict for each in self.missed if str(each) in known]
        harmless = sum(each != "missed" for each in verdicts)
        changing = self.judged - harmless
        return (
            f"mutants: {sure} of {self.judged} noticed; {harmless} of the others change nothing "
            f"that is promised: {sure} of {changing} ({sure / max(changing, 1):.0%})"
        )


def run(source: Path, chosen: Choice, work: Path, way: Way) -> int:
    """Judge mutants of a checkout, copied to ``work``.

    What noticed a mutant has to pass on the original afterwards: else it noticed nothing.
    """
    plan = Plan.load()
    original = work / "original"
    copy_of(source, original, plan)
    builder = Builder(plan=plan)
    builder.build(original)
    candidates = list(mutants(original, executed_lines(original, way)))
    print(f"{len(candidates)} changes of executed lines; seed {chosen.seed}", flush=True)
    tally = Tally()
    for mutant in sample(candidates, chosen.seed):
        if tally.judged == chosen.count:
            break
        if not any(each in str(mutant) for each in chosen.only or [""]):
            continue
        started = time.monotonic()
        check = _judge_mutant(mutant, original, builder, dict.fromkeys(tally.noticed.values()), way)
        if check is None:
            continue
        if check:
            tally.noticed[mutant] = check
        else:
            tally.missed.append(mutant)
        word, took = "noticed" if check else "MISSED ", time.monotonic() - started
        print(f"{word} {took:4.0f} s [{mutant.kind}] {mutant}  {check}", flush=True)
    doubtful = _noticed_in(original, set(tally.noticed.values()), way)
    for mutant, check in tally.noticed.items():
        if check in doubtful:
            print(f"DOUBTFUL {mutant}  {check} does not pass on the original either")
    for mutant in tally.missed:
        found = survivors().get(str(mutant))
        print(f"survivor {mutant}  {f'{found.verdict}: {found.why}' if found else 'not looked at'}")
    print(tally.share(doubtful))
    return 0


def _noticed_in(original: Path, checks: set[str], way: Way) -> set[str]:
    """Which of these checks break on the original too."""
    if not checks:
        return set()
    _, judged, said = judge(original, way, "--pyargs", *sorted(map(place_of, checks)))
    if not judged:
        raise SourceError(f"the original cannot be judged:\n{said[-2000:]}")
    passed = {each["check"] for each in judged if each["verdict"] in ("pass", "known deviation")}
    return checks - passed


def _judge_mutant(
    mutant: Mutant, original: Path, builder: Builder, before: Collection[str], way: Way
) -> str | None:
    """Which check noticed; "" for none, ``None`` where the mutant does not compile."""
    path = original / mutant.file
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        builder.build(original)
        for arguments in stages(mutant, before, way):
            code, judged, said = judge(original, way, "-x", *arguments)
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
    parser.add_argument("--only", action="append", metavar="TEXT", help="those whose name has it")
    parser.add_argument("--quick", action="store_true", help="leave out rules of other files")
    parser.add_argument("--edition", required=True, help="of CANN's documents")
    given, more = parser.parse_known_args()
    if given.count < 1:
        parser.error(f"{given.count} mutants cannot be judged; give 1 or more")
    default_store().mkdir(parents=True, exist_ok=True)
    chosen = Choice(given.count, given.seed, given.only)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=default_store()) as name:
        try:
            way = Way(given.edition, given.quick, more)
            return run(given.source.resolve(), chosen, Path(name), way)
        except SourceError as error:
            print(f"ci/verify-cann: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
